// What mpi.h has as macros that bindgen cannot see.
#include <mpi.h>

const void *const pgas_mpi_in_place = MPI_IN_PLACE;

// Whether the window's public and private copies are one (MPI-3.1, section 11.4).
int pgas_mpi_is_unified(MPI_Win window, int *is_unified) {
  int *model = 0, found = 0;
  int code = MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &found);
  *is_unified = code == MPI_SUCCESS && found && *model == MPI_WIN_UNIFIED;
  return code;
}
