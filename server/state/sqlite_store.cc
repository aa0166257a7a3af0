#include "server/state/state_store.h"
