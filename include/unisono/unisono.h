/* unisono for C, and for whatever speaks C: groups of ranks, their operations, and stores.
 *
 *   unisono_group* world;
 *   if (unisono_init(NULL, &world) != UNISONO_OK) {           // RANK, WORLD_SIZE, MASTER_ADDR, …
 *     fprintf(stderr, "%s\n", unisono_last_error()->text);
 *     return 1;
 *   }
 *   float sums[3] = {1, 2, 3};
 *   unisono_all_reduce(world, sums, 3, UNISONO_FLOAT32, UNISONO_SUM, NULL, NULL);
 *   unisono_group_destroy(world);
 *
 * Every function that can fail returns a status; on failure unisono_last_error() of the same thread
 * tells all that is known, and nothing was stored through the pointers that were given. No
 * exception ever leaves a function.
 *
 * An operation with a null `work` returns when it is done. Otherwise it returns once it has begun:
 * `*work` is waited for later, and freed; until it has ended its memory must stay as it is. Every
 * rank makes the same calls in the same order. Counts are elements, not bytes.
 *
 * Handles may be used from any thread, also by several at a time; none may be freed while it is
 * used. Freeing NULL does nothing. All text is UTF-8 and belongs to the library unless said
 * otherwise.
 *
 * Structures that a caller fills begin with their own size, as the caller's compiler sees it; their
 * initialisers (UNISONO_CALL_OPTIONS, …) set that. Later versions only add to the end.
 */
#ifndef UNISONO_UNISONO_H
#define UNISONO_UNISONO_H

#include <stddef.h>
#include <stdint.h>

#define UNISONO_C_API __attribute__((visibility("default")))

/* In C++ too any number may be in an enumeration, as in one that a newer library has given. */
#ifdef __cplusplus
#define UNISONO_AS_INT : int
extern "C" {
#else
#define UNISONO_AS_INT
#endif

/* --- errors ------------------------------------------------------------------------------- */

/* Why a call failed. The names are the words in brackets in an error's text. */
typedef enum unisono_status UNISONO_AS_INT {
  UNISONO_OK = 0,
  UNISONO_PEER_DEAD = 1,        /* a peer's process is gone or dumping core */
  UNISONO_PEER_UNREACHABLE = 2, /* no connection, or it timed out in the network */
  UNISONO_PEER_LEFT = 3,        /* a peer left cleanly while it was still needed */
  UNISONO_TIMEOUT = 4,          /* the deadline passed; nobody is known to be dead */
  UNISONO_ABORTED = 5,          /* somebody aborted the group */
  UNISONO_MISMATCH = 6,         /* ranks called different things */
  UNISONO_POISONED = 7,         /* the group failed earlier */
  UNISONO_FORKED = 8,           /* used in a forked child */
  UNISONO_SHUTDOWN = 9,         /* the object or the process is closing */
  UNISONO_STORE_LOST = 10,      /* the connection to the store is lost */
  UNISONO_STORE_STALE = 11,     /* a file left by another job */
  UNISONO_AUTH_FAILED = 12,     /* authentication failed */
  UNISONO_PROTOCOL = 13,        /* malformed data from a peer or file */
  UNISONO_LIMIT = 14,           /* a limit was hit; the text names it */
  UNISONO_RESOURCE = 15,        /* memory, descriptors, threads, ports, disk */
  UNISONO_CONFIG = 16,          /* impossible settings */
  UNISONO_USAGE = 17,           /* wrong arguments; nothing was sent */
  UNISONO_QUEUE_EMPTY = 18      /* a pop that was not to wait found an empty queue */
} unisono_status;

/* All that is known of a failure. Text is never NULL; numbers are -1 when they are not known. */
typedef struct unisono_error {
  unisono_status status;
  const char* text;  /* the one line that says it all */
  const char* what;  /* of which: what happened and why */
  const char* hint;  /* what to do about it */
  const char* op;    /* "all_reduce" */
  const char* group; /* its name */
  const char* host;  /* "10.0.0.1:29500" */
  int64_t seq;       /* the number of the operation in its group */
  int64_t pid;
  int64_t elapsed_ms;
  int rank;
  int world;
  const int* culprits; /* ranks of the world */
  size_t culprit_count;
} unisono_error;

/* What the last failing call of this thread failed with; status UNISONO_OK if none has. Stays as it
 * is until another call of this thread fails. */
UNISONO_C_API const unisono_error* unisono_last_error(void);

/* "PEER_DEAD" for UNISONO_PEER_DEAD; "" for a number that is no status. */
UNISONO_C_API const char* unisono_status_name(unisono_status status);

/* "0.1.0" */
UNISONO_C_API const char* unisono_version(void);

/* --- bytes that are given out ---------------------------------------------------------------- */

/* They are the caller's, to be freed with unisono_bytes_free(); a 0 follows the last byte. */
typedef struct unisono_bytes {
  char* data;
  size_t size;
} unisono_bytes;
UNISONO_C_API void unisono_bytes_free(unisono_bytes* bytes);
/* Frees a list of them, and each. */
UNISONO_C_API void unisono_bytes_list_free(unisono_bytes* list, size_t count);

/* --- groups ------------------------------------------------------------------------------- */

typedef struct unisono_group unisono_group;
typedef struct unisono_store unisono_store;
typedef struct unisono_work unisono_work;

enum { UNISONO_UNSET = -1 }; /* what is not given: rank, size, timeout_ms */
enum { UNISONO_ANY_SOURCE = -1, UNISONO_NO_COLOR = -1 };

typedef struct unisono_init_options {
  size_t struct_size;
  const char* url;      /* where the ranks meet; NULL: env:// */
  unisono_store* store; /* instead of a URL; with it, rank and size are needed too */
  int rank;             /* else from the URL or the environment */
  int size;
  int64_t timeout_ms; /* of operations that have none of their own; else 30 minutes */
  const char* name;   /* NULL: "world" */
} unisono_init_options;
#define UNISONO_INIT_OPTIONS \
  { sizeof(unisono_init_options), NULL, NULL, UNISONO_UNSET, UNISONO_UNSET, UNISONO_UNSET, NULL }

/* Meets the other ranks. NULL for options: everything from the environment. */
UNISONO_C_API unisono_status unisono_init(const unisono_init_options* options,
                                          unisono_group** group);

UNISONO_C_API int unisono_group_rank(const unisono_group* group);
UNISONO_C_API int unisono_group_size(const unisono_group* group);
UNISONO_C_API const char* unisono_group_name(const unisono_group* group);

/* A group of those who give the same color, which is not negative; *out is NULL for who gives
 * UNISONO_NO_COLOR. Every rank calls it. */
UNISONO_C_API unisono_status unisono_group_split(unisono_group* group, int color,
                                                 unisono_group** out);
/* A group of these ranks of `group`. Every rank of `group` calls it with the same list; *out is
 * NULL for who is not in it. */
UNISONO_C_API unisono_status unisono_group_new(unisono_group* group, const int* ranks, size_t count,
                                               unisono_group** out);
/* Fails what is under way on all ranks, and what comes later. Waits for nobody. */
UNISONO_C_API unisono_status unisono_group_abort(unisono_group* group);
/* Waits for what is under way, ends the group in order, and frees the handle, also when it fails.
 * For one that unisono_init() gave, first all groups that were made out of it. */
UNISONO_C_API unisono_status unisono_group_destroy(unisono_group* group);
/* Only frees the handle; the group goes with its last handle. */
UNISONO_C_API void unisono_group_free(unisono_group* group);

/* --- operations --------------------------------------------------------------------------- */

typedef enum unisono_dtype UNISONO_AS_INT {
  UNISONO_FLOAT32 = 0,
  UNISONO_FLOAT64 = 1,
  UNISONO_FLOAT16 = 2,
  UNISONO_BFLOAT16 = 3,
  UNISONO_FLOAT8_E4M3 = 4,
  UNISONO_FLOAT8_E5M2 = 5,
  UNISONO_INT8 = 6,
  UNISONO_INT16 = 7,
  UNISONO_INT32 = 8,
  UNISONO_INT64 = 9,
  UNISONO_UINT8 = 10,
  UNISONO_UINT16 = 11,
  UNISONO_UINT32 = 12,
  UNISONO_UINT64 = 13,
  UNISONO_BOOL = 14,
  UNISONO_COMPLEX64 = 15,
  UNISONO_COMPLEX128 = 16
} unisono_dtype;

typedef enum unisono_op UNISONO_AS_INT {
  UNISONO_SUM = 0,
  UNISONO_AVG = 1, /* the sum divided by the number of ranks, once */
  UNISONO_PRODUCT = 2,
  UNISONO_MIN = 3,
  UNISONO_MAX = 4,
  UNISONO_BAND = 5,
  UNISONO_BOR = 6,
  UNISONO_BXOR = 7,
  UNISONO_PREMUL_SUM = 8 /* each contribution times `factor`, then the sum */
} unisono_op;

/* What can be said of a call; NULL instead of it: nothing. */
typedef struct unisono_call_options {
  size_t struct_size;
  int64_t timeout_ms; /* else that of the group */
  int tag;            /* of messages */
  double factor;      /* of UNISONO_PREMUL_SUM */
} unisono_call_options;
#define UNISONO_CALL_OPTIONS \
  { sizeof(unisono_call_options), UNISONO_UNSET, 0, 1.0 }

/* Part of a list with one entry for each rank. */
typedef struct unisono_block {
  void* data;
  size_t count;
} unisono_block;

/* Everybody gets the reduction of all, in place. */
UNISONO_C_API unisono_status unisono_all_reduce(unisono_group* group, void* data, size_t count,
                                                unisono_dtype dtype, unisono_op op,
                                                const unisono_call_options* options,
                                                unisono_work** work);
/* Everybody gets the sum of what all have at `count` places of a vector, or of a table whose rows
 * have `width` elements: row places[i], of `size`, has values[i * width] and those after it. Places
 * may be named several times. The sum has each place once, in order: `sum_places` is an array of
 * int64_t, `sum_values` its rows. */
UNISONO_C_API unisono_status unisono_all_reduce_sparse(
    unisono_group* group, const int64_t* places, const void* values, size_t count, size_t width,
    int64_t size, unisono_dtype dtype, const unisono_call_options* options,
    unisono_bytes* sum_places, unisono_bytes* sum_values);
/* The root gets it, in place; the others' data stays as it is. */
UNISONO_C_API unisono_status unisono_reduce(unisono_group* group, void* data, size_t count,
                                            unisono_dtype dtype, unisono_op op, int root,
                                            const unisono_call_options* options,
                                            unisono_work** work);
/* Everybody gets the root's data. */
UNISONO_C_API unisono_status unisono_broadcast(unisono_group* group, void* data, size_t count,
                                               unisono_dtype dtype, int root,
                                               const unisono_call_options* options,
                                               unisono_work** work);
/* Everybody gets everybody's `count` elements, by rank: `all` has room for size times as many. */
UNISONO_C_API unisono_status unisono_all_gather(unisono_group* group, const void* mine,
                                                size_t count, void* all, unisono_dtype dtype,
                                                const unisono_call_options* options,
                                                unisono_work** work);
/* The same with blocks of any sizes: all[r] has room for what rank r gives. */
UNISONO_C_API unisono_status unisono_all_gather_blocks(unisono_group* group, const void* mine,
                                                       size_t count, const unisono_block* all,
                                                       unisono_dtype dtype,
                                                       const unisono_call_options* options,
                                                       unisono_work** work);
/* The root gets everybody's elements, by rank; `all` is NULL for the others. */
UNISONO_C_API unisono_status unisono_gather(unisono_group* group, const void* mine, size_t count,
                                            void* all, unisono_dtype dtype, int root,
                                            const unisono_call_options* options,
                                            unisono_work** work);
/* The same with blocks of any sizes, done as an all_to_all: on the root all[r] has room for what
 * rank r gives. */
UNISONO_C_API unisono_status unisono_gather_blocks(unisono_group* group, const void* mine,
                                                   size_t count, const unisono_block* all,
                                                   unisono_dtype dtype, int root,
                                                   const unisono_call_options* options,
                                                   unisono_work** work);
/* Rank r gets part r of the root's elements; `all` is NULL for the others. */
UNISONO_C_API unisono_status unisono_scatter(unisono_group* group, const void* all, void* mine,
                                             size_t count, unisono_dtype dtype, int root,
                                             const unisono_call_options* options,
                                             unisono_work** work);
/* The same with blocks of any sizes, done as an all_to_all: the root's all[r] has as many as rank r
 * takes. */
UNISONO_C_API unisono_status unisono_scatter_blocks(unisono_group* group, const unisono_block* all,
                                                    void* mine, size_t count, unisono_dtype dtype,
                                                    int root, const unisono_call_options* options,
                                                    unisono_work** work);
/* Rank r gets part r of the reduction: `count` elements of size times as many. */
UNISONO_C_API unisono_status unisono_reduce_scatter(unisono_group* group, const void* all,
                                                    void* part, size_t count, unisono_dtype dtype,
                                                    unisono_op op,
                                                    const unisono_call_options* options,
                                                    unisono_work** work);
UNISONO_C_API unisono_status unisono_reduce_scatter_blocks(
    unisono_group* group, const unisono_block* all, void* part, size_t count, unisono_dtype dtype,
    unisono_op op, const unisono_call_options* options, unisono_work** work);
/* Rank r gets part r of everybody's elements, by rank: `count` from each. */
UNISONO_C_API unisono_status unisono_all_to_all(unisono_group* group, const void* give, void* take,
                                                size_t count, unisono_dtype dtype,
                                                const unisono_call_options* options,
                                                unisono_work** work);
UNISONO_C_API unisono_status unisono_all_to_all_blocks(
    unisono_group* group, const unisono_block* give, const unisono_block* take, unisono_dtype dtype,
    const unisono_call_options* options, unisono_work** work);
/* To rank `to`, which receives as many with the same tag; done when `data` may change again. */
UNISONO_C_API unisono_status unisono_send(unisono_group* group, const void* data, size_t count,
                                          unisono_dtype dtype, int to,
                                          const unisono_call_options* options, unisono_work** work);
/* From rank `from`, or UNISONO_ANY_SOURCE. `source`, unless NULL, is told who it was; of one that
 * has only begun unisono_work_source() tells it. */
UNISONO_C_API unisono_status unisono_recv(unisono_group* group, void* data, size_t count,
                                          unisono_dtype dtype, int from, int* source,
                                          const unisono_call_options* options, unisono_work** work);
/* Done when everybody has called it. */
UNISONO_C_API unisono_status unisono_barrier(unisono_group* group,
                                             const unisono_call_options* options,
                                             unisono_work** work);
/* The same, and rank 0's error says who has not come: the first such rank, or all of them. */
UNISONO_C_API unisono_status unisono_monitored_barrier(unisono_group* group, int wait_all_ranks,
                                                       const unisono_call_options* options);

/* What is called between these two is begun by the second, together; there `work` may not be NULL
 * in any call, and the works are waited for after the end. One thread at a time. */
UNISONO_C_API unisono_status unisono_batch_begin(unisono_group* group);
UNISONO_C_API unisono_status unisono_batch_end(unisono_group* group, unisono_work** work);

/* --- works -------------------------------------------------------------------------------- */

/* Waits until it has ended; its own error when it failed. UNISONO_TIMEOUT when `timeout_ms` passes
 * first: that leaves the operation as it is. UNISONO_UNSET: no limit but the operation's own. */
UNISONO_C_API unisono_status unisono_work_wait(unisono_work* work, int64_t timeout_ms);
/* 1 when it has ended, well or not. */
UNISONO_C_API int unisono_work_done(unisono_work* work);
/* The rank that a message came from; -1 before it has ended, and for other operations. */
UNISONO_C_API int unisono_work_source(unisono_work* work);
/* Calls `callback(context)` when it has ended, on the thread that ends it; at once when it has. */
UNISONO_C_API unisono_status unisono_work_on_done(unisono_work* work, void (*callback)(void*),
                                                  void* context);
/* Forgets it; the operation goes on. */
UNISONO_C_API void unisono_work_free(unisono_work* work);

/* --- memory that the others reach where it is ---------------------------------------------- */

/* Zeros on which operations of this group copy nothing in between. It may outlive the group. */
typedef struct unisono_memory unisono_memory;
UNISONO_C_API unisono_status unisono_memory_new(unisono_group* group, size_t bytes,
                                                unisono_memory** memory);
UNISONO_C_API void* unisono_memory_data(const unisono_memory* memory);
UNISONO_C_API void unisono_memory_free(unisono_memory* memory);

/* --- stores ------------------------------------------------------------------------------- */

/* Values are bytes and may hold anything; keys are text. */

typedef struct unisono_tcp_store_options {
  size_t struct_size;
  int port;           /* 0 on a server: the kernel picks one, see unisono_store_port() */
  int is_server;      /* 1 in the one process that runs it */
  int worker_count;   /* how many clients belong to the job, which the server waits for */
  int64_t timeout_ms; /* of calls that wait; else 5 minutes */
} unisono_tcp_store_options;
#define UNISONO_TCP_STORE_OPTIONS \
  { sizeof(unisono_tcp_store_options), 29500, 0, UNISONO_UNSET, UNISONO_UNSET }

UNISONO_C_API unisono_status unisono_store_tcp(const char* host,
                                               const unisono_tcp_store_options* options,
                                               unisono_store** store);
/* A file that all ranks open; `world_size` UNISONO_UNSET when it is not known. */
UNISONO_C_API unisono_status unisono_store_file(const char* path, int world_size,
                                                unisono_store** store);
/* For the threads of one process. */
UNISONO_C_API unisono_status unisono_store_hash(unisono_store** store);
/* The same store with `prefix` before every key. */
UNISONO_C_API unisono_status unisono_store_prefix(const char* prefix, unisono_store* inner,
                                                  unisono_store** store);
/* Another client of the same data, with connections and a timeout of its own. */
UNISONO_C_API unisono_status unisono_store_clone(unisono_store* store, unisono_store** clone);
/* Of a store over TCP; -1 for others. */
UNISONO_C_API int unisono_store_port(const unisono_store* store);
UNISONO_C_API void unisono_store_free(unisono_store* store);

/* How long later calls wait that are given no time of their own. */
UNISONO_C_API unisono_status unisono_store_set_timeout(unisono_store* store, int64_t timeout_ms);
UNISONO_C_API unisono_status unisono_store_set(unisono_store* store, const char* key,
                                               const void* value, size_t size);
/* Waits until somebody has set it. */
UNISONO_C_API unisono_status unisono_store_get(unisono_store* store, const char* key,
                                               unisono_bytes* value);
UNISONO_C_API unisono_status unisono_store_add(unisono_store* store, const char* key, int64_t delta,
                                               int64_t* sum);
/* Sets it if it is `expected`; `value` is what is there afterwards. */
UNISONO_C_API unisono_status unisono_store_compare_set(unisono_store* store, const char* key,
                                                       const void* expected, size_t expected_size,
                                                       const void* desired, size_t desired_size,
                                                       unisono_bytes* value);
/* The values of all keys, in order: `values` has room for `count`. Waits until all are set. */
UNISONO_C_API unisono_status unisono_store_multi_get(unisono_store* store, const char* const* keys,
                                                     size_t count, unisono_bytes* values);
/* Sets all keys, each to the value at the same place, which stays the caller's. */
UNISONO_C_API unisono_status unisono_store_multi_set(unisono_store* store, const char* const* keys,
                                                     const unisono_bytes* values, size_t count);
/* The keys that users have set, in no order; freed with unisono_bytes_list_free(). */
UNISONO_C_API unisono_status unisono_store_list_keys(unisono_store* store, unisono_bytes** keys,
                                                     size_t* count);
UNISONO_C_API unisono_status unisono_store_append(unisono_store* store, const char* key,
                                                  const void* value, size_t size);
UNISONO_C_API unisono_status unisono_store_check(unisono_store* store, const char* const* keys,
                                                 size_t count, int* all_set);
/* UNISONO_UNSET: as long as the store's timeout. */
UNISONO_C_API unisono_status unisono_store_wait(unisono_store* store, const char* const* keys,
                                                size_t count, int64_t timeout_ms);
UNISONO_C_API unisono_status unisono_store_delete(unisono_store* store, const char* key,
                                                  int* existed);
UNISONO_C_API unisono_status unisono_store_num_keys(unisono_store* store, int64_t* count);
UNISONO_C_API unisono_status unisono_store_queue_push(unisono_store* store, const char* key,
                                                      const void* value, size_t size);
/* With `block` waits for an element; otherwise UNISONO_QUEUE_EMPTY when there is none. */
UNISONO_C_API unisono_status unisono_store_queue_pop(unisono_store* store, const char* key,
                                                     int block, unisono_bytes* value);
UNISONO_C_API unisono_status unisono_store_queue_len(unisono_store* store, const char* key,
                                                     int64_t* count);
/* Waits until `world_size` callers have come to `key`; a fresh key each time. */
UNISONO_C_API unisono_status unisono_store_barrier(unisono_store* store, const char* key,
                                                   int64_t world_size, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
