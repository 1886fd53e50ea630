/* Children: forked, watched, killed when they hang, and asked for their last words. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

#define STAY_HOT_NS 3000000u

board *the_board;

static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
static bool in_child;
static locate *where_is;
static int null_file;
static int orders_in, reply_out;
static uint32_t orders_taken;

uint64_t wall_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t cpu_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- last words ---------------------------------------------------------------------------------- */

static char access_kind(const ucontext_t *context) {
#if defined(__x86_64__)
    return context->uc_mcontext.gregs[REG_ERR] & 2 ? 'w' : 'r';
#elif defined(__aarch64__)
    /* The syndrome is one of the tagged records after the registers; an emulator may leave it out. */
    const unsigned char *at = (const unsigned char *)context->uc_mcontext.__reserved;
    const unsigned char *end = at + sizeof context->uc_mcontext.__reserved;
    while (at + 16 <= end) {
        uint32_t head[2];
        memcpy(head, at, sizeof head);
        if (head[0] == 0 || head[1] < 8) break;
        if (head[0] == 0x45535201) {
            uint64_t syndrome;
            memcpy(&syndrome, at + 8, sizeof syndrome);
            return syndrome >> 6 & 1 ? 'w' : 'r';
        }
        at += head[1];
    }
    return '?';
#else
    (void)context;
    return '?';
#endif
}

static uintptr_t program_counter(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

static void last_words(int number, siginfo_t *info, void *machine) {
    if (!in_child) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    finding *f = &the_board->finding;
    *f = (finding){.fault = SIGNALLED, .signal = number, .access = '?', .argument = -1};
    if (number == SIGSEGV || number == SIGBUS) {
        const uintptr_t stack = the_board->stack;
        f->address = (uintptr_t)info->si_addr;
        f->code = info->si_code;
        f->access = access_kind(machine);
        bool known = info->si_code > 0 && where_is && where_is(f->address, f);
        if (!known && f->address && f->address == program_counter(machine)) f->side = JUMPED;
        else if (!known && f->address < stack && stack - f->address < (16u << 20)) f->side = NEAR_STACK;
    }
    _exit(200);
}

void children_prepare(void) {
    state_allow_tiles();
    the_board = shared_map(sizeof *the_board);
    null_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    stack_t stack = {.ss_size = getauxval(AT_MINSIGSTKSZ) + (64u << 10)};
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!the_board || null_file < 0 || stack.ss_sp == MAP_FAILED) {
        refuse("no memory for the worker's own pages");
        exit(1);
    }
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = last_words, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) sigaction(deadly[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* --- starting and watching ----------------------------------------------------------------------- */

/* Rows may have left processes behind; they are of this group, which is the worker's own when it leads it. */
void leave_nobody(void) {
    if (getpgrp() == getpid()) kill(0, SIGKILL);
    _exit(0);
}

static void close_all(child *c) {
    int *files[] = {&c->output, &c->reply, &c->orders};
    for (int i = 0; i < 3; i++) {
        if (*files[i] > 0) close(*files[i]);
        *files[i] = 0;
    }
}

/* The child's standard streams: nothing to read, and a pipe whose closing tells that it ended. */
void child_start(child *c, void (*body)(void *), void *context, locate *where) {
    int output[2], reply[2], orders[2];
    *c = (child){0};
    if (pipe2(output, O_CLOEXEC) || pipe2(reply, O_CLOEXEC) || pipe2(orders, O_CLOEXEC)) return;
    the_board->finding = (finding){.argument = -1};
    the_board->finished = 0;
    the_board->orders = 0;
    fflush(replies);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        in_child = true;
        where_is = where;
        orders_in = orders[0];
        reply_out = reply[1];
        close(fileno(replies)); /* not a row's to write to, nor to keep open */
        dup2(null_file, 0);
        dup2(output[1], 1);
        dup2(output[1], 2);
        close(output[0]);
        close(reply[0]);
        close(orders[1]);
        the_board->stack = (uintptr_t)__builtin_frame_address(0);
        body(context);
        _exit(0);
    }
    close(output[1]);
    close(reply[1]);
    close(orders[0]);
    c->output = output[0];
    c->reply = reply[0];
    c->orders = orders[1];
    if (pid > 0) c->pid = pid;
    else close_all(c);
    fcntl(c->output, F_SETFL, O_NONBLOCK);
}

static uint32_t finished_by(pid_t pid) { return (uint32_t)pid ^ 0x5a17f00du; }

void child_finished(void) { the_board->finished = finished_by(getpid()); }

bool child_ordered(child *c) {
    char byte = 0;
    the_board->orders++;
    return c->pid > 0 && write(c->orders, &byte, 1) == 1;
}

/* Stays hot for a while before it sleeps: a core that slept is slow when it wakes, and the next order of a
 * race comes within a millisecond. Not where the master needs this very core to give it. */
bool child_order(void) {
    char byte;
    const uint32_t seen = orders_taken++;
    const uint64_t start = wall_clock_ns();
    while (allowed_cores > 1 && the_board->orders == seen && wall_clock_ns() - start < STAY_HOT_NS)
        for (volatile int spin = 0; spin < 1000; spin++) {}
    return read(orders_in, &byte, 1) == 1;
}

void child_replied(void) {
    char byte = 0;
    if (write(reply_out, &byte, 1) != 1) _exit(0);
}

/* Keeps the first of what a child prints and swallows the rest; false when no writer is left. */
static bool drain(child *c) {
    char scrap[4096];
    for (;;) {
        ssize_t got = read(c->output, scrap, sizeof scrap);
        if (got == 0) return false;
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        size_t room = sizeof c->text - 1 - c->text_length;
        size_t kept = (size_t)got < room ? (size_t)got : room;
        memcpy(c->text + c->text_length, scrap, kept);
        c->text_length += kept;
    }
}

static uint64_t child_cpu_ns(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A child hangs when its heartbeat stood still for `timeout_ms` while it had the processor for half of
 * it: on a busy machine wall time alone would condemn a good row. Ten times that condemns a sleeper. */
event child_watch(child *c, int timeout_ms) {
    uint64_t since = wall_clock_ns(), cpu_since = 0;
    uint32_t beat = the_board->heartbeat;
    const uint64_t limit = (uint64_t)timeout_ms * 1000000u;
    bool writers = true, replying = true;
    for (;;) {
        struct pollfd files[] = {
            {.fd = writers ? c->output : -1, .events = POLLIN},
            {.fd = replying ? c->reply : -1, .events = POLLIN},
            {.fd = 0, .events = 0}, /* our own master: a closed pipe means that nobody wants the answer */
        };
        if (!writers) usleep(50); /* exiting, or a row closed the streams: nothing will wake us */
        const int ready = poll(files, 3, writers ? 200 : 0);
        if (files[2].revents & (POLLHUP | POLLERR)) {
            kill(c->pid, SIGKILL);
            leave_nobody();
        }
        if (files[0].revents) writers = drain(c);
        char byte;
        if (files[1].revents & POLLIN && read(c->reply, &byte, 1) == 1) return REPLIED;
        if (files[1].revents & POLLHUP) replying = false; /* else it would be ready for ever */
        if (!writers || ready == 0) {                     /* a grandchild may hold the pipe open */
            if (the_board->finished == finished_by(c->pid) || the_board->finding.fault != NO_FAULT)
                return ENDED; /* on its way out */
            siginfo_t gone = {0};
            if (waitid(P_PID, (id_t)c->pid, &gone, WEXITED | WNOHANG | WNOWAIT) == 0 && gone.si_pid)
                return ENDED;
        }
        uint64_t now = wall_clock_ns();
        if (the_board->heartbeat != beat) {
            beat = the_board->heartbeat;
            since = now;
            cpu_since = child_cpu_ns(c->pid);
        } else if (now - since > limit &&
                   (child_cpu_ns(c->pid) - cpu_since > limit / 2 || now - since > 10 * limit)) {
            return STUCK;
        }
    }
}

void child_stop(child *c) {
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    close_all(c);
    c->pid = 0;
}

/* A row may have written anywhere, the board included: nothing on it can be an index before this. */
static finding sane(finding f) {
    if (f.fault > SCRIBBLED) f = (finding){.fault = SCRIBBLED, .argument = -1};
    if (f.side > NEAR_STACK) f.side = NOWHERE;
    if (f.access != 'r' && f.access != 'w') f.access = '?';
    f.name[sizeof f.name - 1] = f.got[sizeof f.got - 1] = f.want[sizeof f.want - 1] = '\0';
    if (the_board->phase > PHASE_CALL) the_board->phase = PHASE_CALL;
    return f;
}

finding child_finding(child *c, event how) {
    finding f = the_board->finding;
    const bool finished = the_board->finished == finished_by(c->pid);
    int status = 0;
    if (how == STUCK) kill(c->pid, SIGKILL);
    waitpid(c->pid, &status, 0);
    c->pid = 0;
    close_all(c);
    if (how == STUCK) return (finding){.fault = HUNG, .argument = -1};
    if (f.fault != NO_FAULT) return sane(f);
    if (finished && WIFEXITED(status) && WEXITSTATUS(status) == 0) return f;
    f.argument = -1;
    f.fault = WIFSIGNALED(status) ? SIGNALLED : EXITED;
    f.access = '?';
    f.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    f.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return f;
}

/* --- telling -------------------------------------------------------------------------------------- */

static const char *signal_name(int number) {
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGSEGV, "SEGV"}, {SIGBUS, "BUS"},   {SIGILL, "ILL"},   {SIGFPE, "FPE"},
                 {SIGABRT, "ABRT"}, {SIGTRAP, "TRAP"}, {SIGSYS, "SYS"},   {SIGKILL, "KILL"},
                 {SIGTERM, "TERM"}, {SIGINT, "INT"},   {SIGALRM, "ALRM"}, {SIGHUP, "HUP"},
                 {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},
                 {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number) return names[i].name;
    return "?";
}

static void say_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '%' || c <= ' ' || c > '~') fprintf(replies, "%%%02x", c);
        else fputc(c, replies);
    }
}

/* One reply line's tail: key=value words, texts percent-encoded. */
void report_finding(const job *j, const finding *f, const child *c) {
    static const char *const faults[] = {"none",   "element", "result", "canary", "environment",
                                         "signal", "exit",    "hang",   "memory", "scribble"};
    static const char *const sides[] = {"nowhere", "before", "inside", "past", "jumped", "stack"};
    static const char *const phases[] = {"setup", "fill", "prepare", "call"};
    fprintf(replies, " fault=%s phase=%s case=%d pass=%d placement=%s", faults[f->fault],
            phases[the_board->phase], the_board->case_index, the_board->pass,
            the_board->flush_right ? "right" : "left");
    if (f->argument >= 0 && (size_t)f->argument < j->driver->buffer_count)
        fprintf(replies, " buffer=%s part=%zu element=%lld", j->driver->buffers[f->argument], f->part,
                (long long)f->element);
    if (f->fault == SIGNALLED)
        fprintf(replies, " signal=SIG%s access=%c side=%s address=0x%zx cause=%d", signal_name(f->signal),
                f->access, sides[f->side], (size_t)f->address, f->code);
    if (f->fault == CANARY) fprintf(replies, " side=%s", sides[f->side]);
    if (f->fault == EXITED) fprintf(replies, " code=%d", f->code);
    if (f->fault == ENVIRONMENT) {
        fputs(" name=", replies);
        say_text(f->name, strlen(f->name));
        fprintf(replies, " before=%#x after=%#x", f->before, f->after);
    }
    if (f->fault == WRONG_ELEMENT || f->fault == WRONG_RESULT)
        fprintf(replies, " got=%s want=%s", f->got[0] ? f->got : "?", f->want[0] ? f->want : "?");
    if (c->text_length) {
        fputs(" text=", replies);
        say_text(c->text, c->text_length);
    }
}
