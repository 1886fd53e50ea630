#include <stdlib.h>
#include "demo.h"

int main(int argc, char **argv)
{
    int32_t x[] = {1, 2, 3};
    g(x, 3);
    printf("sum %d\n", f(x, 3));
    for (int i = 1; i < argc; i++) printf("argument %s\n", argv[i]);
    demo_log_tune_status(stdout, "demo");
    return getenv("CODE") ? atoi(getenv("CODE")) : 0;
}
