/* Whose machine is this? The match key of its identity, as tunebuild/identity.py makes it. Linux. */
#ifndef TB_BOX_H
#define TB_BOX_H
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

/* The CPU's name in a file such as /proc/cpuinfo: the first key, in this order, that says something. Reading stops at a
 * `model name`: the rest of the file costs a kernel that has many cores a millisecond. */
static void tb_cpu_name(const char *path, char *name, size_t size)
{
    static const char *const keys[] = {"model name", "Model", "Hardware", "CPU part", "cpu", "uarch"};
    size_t best = sizeof keys / sizeof *keys;
    char line[512];
    FILE *file = fopen(path, "re");
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

/* The same name from the processor itself, which `model name` repeats; "" where it has none. */
static void tb_cpu_brand(char name[49])
{
    name[0] = '\0';
#if defined(__x86_64__)
    if ((unsigned)__get_cpuid_max(0x80000000, NULL) < 0x80000004) return;
    for (unsigned i = 0; i < 3; i++) {
        uint32_t words[4];
        __cpuid(0x80000002 + i, words[0], words[1], words[2], words[3]);
        memcpy(name + 16 * i, words, sizeof words);
    }
    name[48] = '\0';
#endif
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

/* The match key of this machine with a CPU of that name. */
static void tb_box_key(char *cpu, char *key, size_t size)
{
    struct utsname system;
    char release[sizeof system.release];
    if (uname(&system) != 0) {
        snprintf(key, size, "unknown");
        return;
    }
    tb_fold(cpu);
    snprintf(release, sizeof release, "%s", system.release);
    tb_fold(release);
    tb_fold_kernel(release);
    snprintf(key, size, "linux|%s||%s|%s", system.machine, release, cpu);
#ifdef TB_TEST_BOX
    snprintf(key, size, "%s", TB_TEST_BOX);
#endif
}

/* Is this the machine of that match key? `key` is set to this one's. The processor is asked first: kernels from 4.15 to
 * 5.18 measure every core's clock when /proc/cpuinfo is opened, which takes them 10 ms. The file has the last word. */
static int tb_is_box(const char *expected, char *key, size_t size)
{
    char brand[49], name[256];
    tb_cpu_brand(brand);
    if (*brand) {
        tb_box_key(brand, key, size);
        if (strcmp(key, expected) == 0) return 1;
    }
    tb_cpu_name("/proc/cpuinfo", name, sizeof name);
    tb_box_key(name, key, size);
    return strcmp(key, expected) == 0;
}
#endif
