#include <stddef.h>
#include <stdint.h>

size_t str_count(const uint8_t *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += s[i] == ' ';
    return count;
}
