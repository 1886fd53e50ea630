/* SHA-256 of a file, to see whether a sidecar is still the one that was stamped. FIPS 180-4. */
#ifndef TB_SHA256_H
#define TB_SHA256_H
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct tb_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} tb_sha256;

static uint32_t tb_rotated(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void tb_sha256_block(tb_sha256 *sum)
{
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    uint32_t w[64], *s = sum->state;
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (int i = 0; i < 16; i++) {
        const unsigned char *p = sum->block + 4 * i;
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (tb_rotated(x, 7) ^ tb_rotated(x, 18) ^ x >> 3) +
               (tb_rotated(y, 17) ^ tb_rotated(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t x = tb_rotated(e, 6) ^ tb_rotated(e, 11) ^ tb_rotated(e, 25);
        uint32_t y = tb_rotated(a, 2) ^ tb_rotated(a, 13) ^ tb_rotated(a, 22);
        uint32_t t = h + x + (g ^ (e & (f ^ g))) + k[i] + w[i], u = y + ((a & b) | (c & (a | b)));
        h = g, g = f, f = e, e = d + t, d = c, c = b, b = a, a = t + u;
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

static void tb_sha256_add(tb_sha256 *sum, const unsigned char *data, size_t size)
{
    while (size) {
        size_t at = sum->bytes % 64, take = 64 - at < size ? 64 - at : size;
        memcpy(sum->block + at, data, take);
        sum->bytes += take;
        data += take;
        size -= take;
        if (sum->bytes % 64 == 0) tb_sha256_block(sum);
    }
}

static void tb_sha256_hex(tb_sha256 *sum, char hex[65])
{
    uint64_t bits = sum->bytes * 8;
    unsigned char length[8], pad = 0x80;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    do {
        tb_sha256_add(sum, &pad, 1);
        pad = 0;
    } while (sum->bytes % 64 != 56);
    tb_sha256_add(sum, length, 8);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", sum->state[i]);
}

/* The digest of a file's bytes in hexadecimal; "" when it cannot be read. */
static void tb_file_digest(const char *path, char hex[65])
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    tb_sha256 sum = {.bytes = 0};
    unsigned char data[16384];
    size_t got;
    FILE *file = fopen(path, "rbe");
    hex[0] = '\0';
    if (!file) return;
    memcpy(sum.state, start, sizeof start);
    while ((got = fread(data, 1, sizeof data, file)) > 0) tb_sha256_add(&sum, data, got);
    if (!ferror(file)) tb_sha256_hex(&sum, hex);
    fclose(file);
}
#endif
