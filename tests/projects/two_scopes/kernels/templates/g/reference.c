void g(int32_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] ^= 1;
}
