/* ggml's operators as graphs of one or two nodes, run by its CPU backend on one thread: how its own users call them.
 * It publishes no stable binary interface, so what is used of it is declared here. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { size_t size; void *memory; bool no_alloc; } init_params;
enum { F32 = 0, Q8_0 = 8 };

void *ggml_init(init_params);
void *ggml_new_tensor_2d(void *context, int type, int64_t columns, int64_t rows);
void *ggml_mul_mat(void *context, void *weights, void *x);
void *ggml_mul(void *context, void *a, void *b);
void *ggml_rms_norm(void *context, void *x, float eps);
void *ggml_soft_max(void *context, void *x);
void *ggml_silu(void *context, void *x);
void *ggml_new_graph(void *context);
void ggml_build_forward_expand(void *graph, void *tensor);
void *ggml_get_data(const void *tensor);
size_t ggml_nbytes(const void *tensor);
void *ggml_backend_cpu_init(void);
void ggml_backend_cpu_set_n_threads(void *backend, int threads);
void *ggml_backend_alloc_ctx_tensors(void *context, void *backend);
void ggml_backend_tensor_set(void *tensor, const void *data, size_t offset, size_t size);
int ggml_backend_graph_compute(void *backend, void *graph);

typedef struct { void *backend, *graph, *x, *y; } peer_graph;

static void *context_of(size_t size)
{
    return ggml_init((init_params){size, NULL, true});
}

/* Allocates what `context` holds, and puts x in its place. */
static peer_graph *graph_of(void *context, void *x, const float *values, void *y)
{
    static void *backend;
    if (!backend) {
        backend = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(backend, 1);
    }
    peer_graph *made = malloc(sizeof *made);
    *made = (peer_graph){backend, ggml_new_graph(context), x, y};
    ggml_build_forward_expand(made->graph, y);
    ggml_backend_alloc_ctx_tensors(context, backend);
    ggml_backend_tensor_set(x, values, 0, ggml_nbytes(x));
    return made;
}

/* y[tokens][n] = x[tokens][k] w[n][k]^T. On x86 ggml has no other layout for weights of q8_0 than their own. */
void *peer_ggml_matmul(const uint8_t *w, const float *x, size_t tokens, size_t n, size_t k)
{
    void *context = context_of(1 << 20);
    void *weights = ggml_new_tensor_2d(context, Q8_0, (int64_t)k, (int64_t)n);
    void *tx = ggml_new_tensor_2d(context, F32, (int64_t)k, (int64_t)tokens);
    peer_graph *made = graph_of(context, tx, x, ggml_mul_mat(context, weights, tx));
    ggml_backend_tensor_set(weights, w, 0, ggml_nbytes(weights));
    return made;
}

/* kind: 0 softmax, 1 silu, 2 rms_norm times w. */
void *peer_ggml_rows(int kind, const float *x, const float *w, size_t rows, size_t cols, float eps)
{
    void *context = context_of(1 << 20);
    void *tx = ggml_new_tensor_2d(context, F32, (int64_t)cols, (int64_t)rows), *tw = NULL, *y;
    if (kind == 0)
        y = ggml_soft_max(context, tx);
    else if (kind == 1)
        y = ggml_silu(context, tx);
    else
        y = ggml_mul(context, ggml_rms_norm(context, tx, eps), tw = ggml_new_tensor_2d(context, F32, (int64_t)cols, 1));
    peer_graph *made = graph_of(context, tx, x, y);
    if (tw)
        ggml_backend_tensor_set(tw, w, 0, ggml_nbytes(tw));
    return made;
}

/* Runs the graph; `keep`: and copies its result out. */
void peer_ggml_run(void *graph, void *y, int keep)
{
    const peer_graph *it = graph;
    ggml_backend_graph_compute(it->backend, it->graph);
    if (keep)
        memcpy(y, ggml_get_data(it->y), ggml_nbytes(it->y));
}
