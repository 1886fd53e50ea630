int mark(const int32_t *x, size_t n)
{
    (void)x;
    (void)n;
    return -1;
}
