/* Forced before every source of an executable whose guard is automatic: the author's `main` keeps its name
 * for the compiler (so that falling off its end still returns 0) and gets another one for the linker. */
#pragma GCC system_header
#if defined(__cplusplus) || __STDC_VERSION__ > 201710L
#define main tb_app_main
#else
int main() __asm__("tb_app_main");
#endif
