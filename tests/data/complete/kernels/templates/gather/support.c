void sawtooth(void *data, size_t count, uint64_t seed) { }
void shuffle(float *data, int64_t seed)
{
}
