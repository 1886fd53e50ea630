int f(const int32_t *x, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum;
}
