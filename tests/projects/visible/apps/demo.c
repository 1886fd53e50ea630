#include "demo.h"

int main(void)
{
    int32_t x[] = {100, 200};
    printf("f %d mark %d\n", f(x, 2), mark(x, 2));
    return 0;
}
