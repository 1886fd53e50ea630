/* BLAKE2b-256 of a file (RFC 7693), to see whether a sidecar is still the one that was stamped. Every start of a tuned
 * program pays for it, so it is the digest that is fastest in plain C on every 64-bit machine. */
#ifndef TB_DIGEST_H
#define TB_DIGEST_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TB_DIGEST_BYTES = 32, TB_DIGEST_TEXT = 2 * TB_DIGEST_BYTES + 1, TB_DIGEST_BLOCK = 128 };

static uint64_t tb_rotated(uint64_t x, int n) { return x >> n | x << (64 - n); }

static uint64_t tb_word(const unsigned char *p)
{
    uint64_t low = p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
    uint64_t high = p[4] | (uint64_t)p[5] << 8 | (uint64_t)p[6] << 16 | (uint64_t)p[7] << 24;
    return low | high << 32;
}

#define TB_MIX(a, b, c, d, x, y)                                  \
    (a += b + m[x], d = tb_rotated(d ^ a, 32), c += d, b = tb_rotated(b ^ c, 24), \
     a += b + m[y], d = tb_rotated(d ^ a, 16), c += d, b = tb_rotated(b ^ c, 63))

/* One round: which words of the block meet in the columns, then in the diagonals. */
#define TB_ROUND(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15)                          \
    (TB_MIX(v0, v4, v8, v12, s0, s1), TB_MIX(v1, v5, v9, v13, s2, s3), TB_MIX(v2, v6, v10, v14, s4, s5),        \
     TB_MIX(v3, v7, v11, v15, s6, s7), TB_MIX(v0, v5, v10, v15, s8, s9), TB_MIX(v1, v6, v11, v12, s10, s11),    \
     TB_MIX(v2, v7, v8, v13, s12, s13), TB_MIX(v3, v4, v9, v14, s14, s15))

static const uint64_t tb_digest_start[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179),
};

/* Take one block in. `bytes`: how many the state has seen, this block's included; `last`: all ones for the last. */
static void tb_digest_block(uint64_t h[8], const unsigned char *block, uint64_t bytes, uint64_t last)
{
    const uint64_t *iv = tb_digest_start;
    uint64_t v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
    uint64_t v8 = iv[0], v9 = iv[1], v10 = iv[2], v11 = iv[3];
    uint64_t v12 = iv[4] ^ bytes, v13 = iv[5], v14 = iv[6] ^ last, v15 = iv[7];
    uint64_t m[16];
    for (int i = 0; i < 16; i++) m[i] = tb_word(block + 8 * i);
    TB_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    TB_ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    TB_ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);
    TB_ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);
    TB_ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);
    TB_ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);
    TB_ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);
    TB_ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);
    TB_ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);
    TB_ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0);
    TB_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    TB_ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    h[0] ^= v0 ^ v8, h[1] ^= v1 ^ v9, h[2] ^= v2 ^ v10, h[3] ^= v3 ^ v11;
    h[4] ^= v4 ^ v12, h[5] ^= v5 ^ v13, h[6] ^= v6 ^ v14, h[7] ^= v7 ^ v15;
}

/* The digest of a file's bytes in hexadecimal; "" when it cannot be read, or is no plain file. */
static void tb_file_digest(const char *path, char hex[TB_DIGEST_TEXT])
{
    static unsigned char data[1 << 14];
    uint64_t h[8], bytes = 0;
    size_t held = 0; /* what of `data` is not yet taken in: the last block is marked, so one always waits */
    struct stat facts;
    ssize_t got;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe in its place makes nobody wait */
    hex[0] = '\0';
    if (file < 0) return;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(file);
        return;
    }
    memcpy(h, tb_digest_start, sizeof h);
    h[0] ^= 0x01010000 ^ TB_DIGEST_BYTES; /* no key, one thread */
    while ((got = read(file, data + held, sizeof data - held)) > 0) {
        size_t at = 0;
        held += (size_t)got;
        for (; held - at > TB_DIGEST_BLOCK; at += TB_DIGEST_BLOCK)
            tb_digest_block(h, data + at, bytes += TB_DIGEST_BLOCK, 0);
        memmove(data, data + at, held -= at);
    }
    close(file);
    if (got < 0) return;
    memset(data + held, 0, TB_DIGEST_BLOCK - held);
    tb_digest_block(h, data, bytes + held, ~UINT64_C(0));
    for (int i = 0; i < TB_DIGEST_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)(h[i / 8] >> (8 * (i % 8)) & 0xff));
}
#endif
