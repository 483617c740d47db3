/* The smallest group, in C: every rank gives a number, and all get the sum.
 *
 *   for RANK in 0 1 2; do
 *     RANK=$RANK WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 example_hello_c &
 *   done; wait
 */
#include <stdio.h>

#include "unisono/unisono.h"

/* Prints the one line that says what went wrong, why, and what to do. */
static int failed(void) {
  fprintf(stderr, "%s\n", unisono_last_error()->text);
  return 1;
}

int main(void) {
  unisono_group* world = NULL;
  if (unisono_init(NULL, &world) != UNISONO_OK) { /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT */
    return failed();
  }
  const int rank = unisono_group_rank(world);

  /* At once, ... */
  float numbers[2] = {1.0F, (float)rank};
  if (unisono_all_reduce(world, numbers, 2, UNISONO_FLOAT32, UNISONO_SUM, NULL, NULL) !=
      UNISONO_OK) {
    return failed();
  }

  /* ... or while something else is done. */
  unisono_work* work = NULL;
  int largest = rank;
  if (unisono_all_reduce(world, &largest, 1, UNISONO_INT32, UNISONO_MAX, NULL, &work) !=
          UNISONO_OK ||
      unisono_work_wait(work, 10000) != UNISONO_OK) {
    return failed();
  }
  unisono_work_free(work);

  printf("rank %d of %d: the ranks add up to %g, the last is %d\n", rank, unisono_group_size(world),
         (double)numbers[1], largest);
  return unisono_group_destroy(world) == UNISONO_OK ? 0 : failed();
}
