/* Whose machine is this? The match key of its identity, as tunebuild/identity.py makes it. Linux. */
#ifndef TB_BOX_H
#define TB_BOX_H
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* The value of a "key : value" line when `line` has this key, else NULL. */
static const char *tb_line_value(const char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0) return NULL;
    line += length;
    while (*line == ' ' || *line == '\t') line++;
    if (*line++ != ':') return NULL;
    while (isspace((unsigned char)*line)) line++;
    return *line ? line : NULL;
}

/* The CPU's name: the first key, in this order, that says something. Reading stops at a `model name`: the
 * rest of the file costs a kernel that has many cores a millisecond. */
static void tb_cpu_name(char *name, size_t size)
{
    static const char *const keys[] = {"model name", "Model", "Hardware", "CPU part"};
    size_t best = sizeof keys / sizeof *keys;
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(name, size, "unknown-cpu");
    while (file && best > 0 && fgets(line, sizeof line, file)) {
        for (size_t i = 0; i < best; i++) {
            const char *value = tb_line_value(line, keys[i]);
            if (value) {
                snprintf(name, size, "%s", value);
                best = i;
            }
        }
    }
    if (file) fclose(file);
}

/* Runs of blanks become one space, letters lower case, and a `|` is no separator. */
static void tb_fold(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        unsigned char c = (unsigned char)*from;
        if (isspace(c)) {
            if (to != text && to[-1] != ' ') *to++ = ' ';
        } else {
            *to++ = (char)(c == '|' ? '/' : c < 128 ? tolower(c) : c);
        }
    }
    while (to != text && to[-1] == ' ') to--;
    *to = '\0';
}

/* A Linux kernel counts by major.minor: an update of the running system voids no measurement. */
static void tb_fold_kernel(char *release)
{
    size_t major = strspn(release, "0123456789");
    size_t minor = major && release[major] == '.' ? strspn(release + major + 1, "0123456789") : 0;
    if (minor) release[major + 1 + minor] = '\0';
}

static void tb_box_key(char *key, size_t size)
{
    struct utsname system;
    char cpu[256], release[sizeof system.release];
    if (uname(&system) != 0) {
        snprintf(key, size, "unknown");
        return;
    }
    tb_cpu_name(cpu, sizeof cpu);
    tb_fold(cpu);
    snprintf(release, sizeof release, "%s", system.release);
    tb_fold(release);
    tb_fold_kernel(release);
    snprintf(key, size, "linux|%s||%s|%s", system.machine, release, cpu);
#ifdef TB_TEST_BOX
    snprintf(key, size, "%s", TB_TEST_BOX);
#endif
}
#endif
