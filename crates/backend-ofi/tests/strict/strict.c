/* A provider of libfabric for tests, `strict`. It demands all that providers of network cards may
 * demand of a program, and ends the process with a line if the program does not obey:
 *
 * - All memory that an operation of this process uses is registered, for that use, and stays
 *   registered until the operation is complete or the endpoint is closed.
 * - Memory that is registered for an operation that writes to it is writable.
 * - Peers name memory by its address and by a key that the provider chooses. It exists once the
 *   registration is bound to the endpoint and enabled.
 * - The context of an operation is memory of the provider until the operation is complete, and is
 *   overwritten.
 * - One thread at a time is inside of the domain.
 * - Writes and atomics are complete at the target (FI_DELIVERY_COMPLETE). Nothing is injected.
 * - Registrations for peers are closed before the endpoint, all others before the domain.
 * - A posted receive buffer is memory of the provider until its completion, and is overwritten.
 *
 * It says that it has atomics. FI_STRICT_ATOMICS says which it has (`enum atomics`). With
 * FI_STRICT_AUTO it says that it makes progress by itself, and does not. FI_STRICT_AGAIN=n refuses each n-th operation with
 * -FI_EAGAIN, FI_STRICT_LIMIT=n registers n bytes at most, FI_STRICT_LACKS has the bits of capabilities
 * that it does not have. With FI_STRICT_UNSURE no message is sent that is to be complete at the
 * target. FI_STRICT_UNFIT says what it answers although the program cannot use it (`enum unfit`).
 * The bytes go over `tcp;ofi_rxm`.
 *
 * It says that it has receives of many messages if it is asked, as libfabric permits. FI_STRICT_MANY
 * says how it has them (`enum many`). With FI_STRICT_TELL it says in the end how many of its receives
 * were such, and how many atomics it was given.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_prov.h>

#define BELOW "tcp;ofi_rxm"
#define MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)
#define INJECT 64
#define PAGE UINT64_C(4096)
#define REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define BUSY ((void *)UINT64_C(0xb5b5b5b5b5b5b5b5))

enum many {
	MANY_NONE,
	/* The end of a receive has a completion of its own. */
	MANY_APART,
	/* The last message of a receive also says that it is the last. */
	MANY_JOINED,
	/* No such receive can be posted, although the provider says that it has them. */
	MANY_BROKEN,
};

enum unfit {
	UNFIT_NOT,
	/* It demands what the program has not offered. */
	UNFIT_MODE,
	/* It does not order messages. */
	UNFIT_ORDER,
};

enum atomics {
	ATOMICS_NONE,
	/* Those of the provider below. */
	ATOMICS_ALL,
	/* Compare-and-swap alone. */
	ATOMICS_SWAPS,
	/* None, although the queries say that it has all. */
	ATOMICS_REFUSED,
};

#define DEMAND(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "strict: " __VA_ARGS__); \
			fputc('\n', stderr); \
			abort(); \
		} \
	} while (0)

/* A registration. Its address is its descriptor. */
struct region {
	struct fid_mr mr;
	/* The registration below, which peers reach, if they may. */
	struct fid_mr *below;
	uint64_t start, len, access, key;
	/* Operations that use it. */
	long n_used;
	int is_bound;
	struct region *next;
};

static struct region *regions;
static uint64_t n_bytes, n_made, n_begun, n_receives, n_receives_of_many, n_atomics;
/* The endpoint was asked for receives of many messages. */
static int has_many;
/* What is below is open. */
static int has_endpoint;
static atomic_flag inside = ATOMIC_FLAG_INIT;
/* The tables of the objects below. */
static struct fi_ops_fabric fabric_below;
static struct fi_ops_domain domain_below;
static struct fi_ops domain_fid_below, endpoint_fid_below;
static struct fi_ops_mr mr_below;
static struct fi_ops_cq cq_below;
static struct fi_ops_msg msg_below;
static struct fi_ops_rma rma_below;
static struct fi_ops_atomic atomic_below;

static void enter(void)
{
	DEMAND(!atomic_flag_test_and_set(&inside), "two threads are inside of the domain");
}

#define INSIDE(call) \
	({ \
		enter(); \
		__auto_type outcome = (call); \
		atomic_flag_clear(&inside); \
		outcome; \
	})

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* The registration that a descriptor names, for an operation on these bytes. */
static struct region *used(void *desc, const void *start, size_t len, uint64_t access)
{
	uint64_t at = (uintptr_t)start;
	struct region *region = regions;
	while (region && region != desc)
		region = region->next;
	DEMAND(region, "no registration has the descriptor %p", desc);
	DEMAND(region->key != FI_KEY_NOTAVAIL, "a registration is not enabled");
	DEMAND(region->access & access, "memory is not registered for this use");
	DEMAND(at >= region->start && at + len <= region->start + region->len,
	       "%zu bytes at %p are not in the registration", len, start);
	return region;
}

/* Whether an operation is refused for now. */
static int is_refused(void)
{
	uint64_t every = setting("FI_STRICT_AGAIN", 0);
	return every && ++n_begun % every == 0;
}

/* Takes the context and the registration of an operation that has begun. */
static ssize_t begun(ssize_t outcome, void *context, struct region *region)
{
	struct fi_context2 *room = context;
	if (outcome)
		return outcome;
	memset(room, 0x5a, sizeof *room);
	room->internal[0] = BUSY;
	room->internal[1] = region;
	room->internal[2] = NULL;
	region->n_used++;
	return 0;
}

static void check_free(void *context)
{
	struct fi_context2 *room = context;
	DEMAND(room, "an operation has no context");
	DEMAND(room->internal[0] != BUSY, "a context is used twice");
}

static void complete(void *context)
{
	struct fi_context2 *room = context;
	if (!room)
		return;
	DEMAND(room->internal[0] == BUSY, "the memory of a context was changed");
	((struct region *)room->internal[1])->n_used--;
	memset(room, 0x5a, sizeof *room);
}

/* Registrations. */

static int close_region(struct region *region)
{
	struct region **at = &regions;
	int outcome = 0;
	DEMAND(!has_endpoint || !region->n_used, "a registration is closed while it is used");
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	n_bytes -= region->len;
	if (region->below)
		outcome = fi_close(&region->below->fid);
	free(region);
	return outcome;
}

static int mr_close(struct fid *fid)
{
	return INSIDE(close_region((struct region *)fid));
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	DEMAND(other->fclass == FI_CLASS_EP && !flags, "a registration is bound to no endpoint");
	((struct region *)fid)->is_bound = 1;
	return 0;
}

static int mr_control(struct fid *fid, int command, void *argument)
{
	struct region *region = (struct region *)fid;
	DEMAND(command == FI_ENABLE && !argument, "a registration is not enabled by %d", command);
	DEMAND(region->is_bound, "a registration is enabled that is bound to no endpoint");
	region->mr.key = region->key = (region->start & ~(PAGE - 1)) | (++n_made & (PAGE - 1));
	if (!(region->access & REMOTE))
		return 0;
	struct fid_domain *domain = region->mr.fid.context;
	/* Offsets below count from the page that is in the key. */
	uint64_t before = region->start & (PAGE - 1);
	return mr_below.reg(&domain->fid, (void *)(uintptr_t)(region->start - before),
			    region->len + before, region->access, 0, region->key, 0,
			    &region->below, NULL);
}

static struct fi_ops mr_fid = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
};

/* Whether all these bytes may be written, as a card that writes to them demands. */
static int is_writable(uintptr_t start, size_t len)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], mode;
	uintptr_t from, to, end = start + len;
	while (maps && start < end && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %*c%c", &from, &to, &mode) == 3 && mode == 'w' &&
		    from <= start && start < to)
			start = to;
	if (maps)
		fclose(maps);
	return start >= end;
}

static int reg(struct fid *domain, const void *start, size_t len, uint64_t access, uint64_t offset,
	       uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	(void)requested_key, (void)context;
	DEMAND(!offset && !flags, "a registration has an offset or flags");
	if ((access & (FI_RECV | FI_READ | FI_REMOTE_WRITE)) && !is_writable((uintptr_t)start, len))
		return -FI_EFAULT;
	if (n_bytes + len > setting("FI_STRICT_LIMIT", UINT64_MAX / 2))
		return -FI_ENOMEM;
	struct region *region = calloc(1, sizeof *region);
	if (!region)
		return -FI_ENOMEM;
	region->mr.fid.fclass = FI_CLASS_MR;
	region->mr.fid.context = domain;
	region->mr.fid.ops = &mr_fid;
	region->mr.mem_desc = region;
	region->mr.key = region->key = FI_KEY_NOTAVAIL;
	region->start = (uintptr_t)start;
	region->len = len;
	region->access = access;
	region->next = regions;
	regions = region;
	n_bytes += len;
	*mr = &region->mr;
	return 0;
}

static int mr_reg(struct fid *domain, const void *start, size_t len, uint64_t access,
		  uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		  void *context)
{
	return INSIDE(reg(domain, start, len, access, offset, requested_key, flags, mr, context));
}

static struct fi_ops_mr mr_ops = {.size = sizeof(struct fi_ops_mr), .reg = mr_reg};

/* Operations. */

static ssize_t do_recv(struct fid_ep *ep, void *start, size_t len, void *desc, fi_addr_t from,
		       void *context)
{
	struct region *region = used(desc, start, len, FI_RECV);
	check_free(context);
	if (is_refused())
		return -FI_EAGAIN;
	memset(start, 0x5a, len);
	n_receives++;
	return begun(msg_below.recv(ep, start, len, NULL, from, context), context, region);
}

static ssize_t msg_recv(struct fid_ep *ep, void *start, size_t len, void *desc, fi_addr_t from,
			void *context)
{
	return INSIDE(do_recv(ep, start, len, desc, from, context));
}

static ssize_t do_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct fi_msg below = *msg;
	struct fi_context2 *room = msg->context;
	DEMAND(flags == FI_MULTI_RECV && has_many, "a receive of many messages was not asked for");
	DEMAND(msg->iov_count == 1, "a receive has %zu parts", msg->iov_count);
	struct region *region =
		used(msg->desc[0], msg->msg_iov->iov_base, msg->msg_iov->iov_len, FI_RECV);
	check_free(room);
	if (setting("FI_STRICT_MANY", MANY_APART) == MANY_BROKEN)
		return -FI_ENOSYS;
	if (is_refused())
		return -FI_EAGAIN;
	memset(msg->msg_iov->iov_base, 0x5a, msg->msg_iov->iov_len);
	n_receives++, n_receives_of_many++;
	below.desc = NULL;
	ssize_t outcome = begun(msg_below.recvmsg(ep, &below, flags), room, region);
	if (!outcome)
		room->internal[2] = BUSY;
	return outcome;
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return INSIDE(do_recvmsg(ep, msg, flags));
}

static ssize_t do_send(struct fid_ep *ep, const void *start, size_t len, void *desc, fi_addr_t to,
		       void *context)
{
	struct region *region = used(desc, start, len, FI_SEND);
	check_free(context);
	if (is_refused())
		return -FI_EAGAIN;
	return begun(msg_below.send(ep, start, len, NULL, to, context), context, region);
}

static ssize_t msg_send(struct fid_ep *ep, const void *start, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	return INSIDE(do_send(ep, start, len, desc, to, context));
}

static ssize_t do_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct fi_msg below = *msg;
	DEMAND(msg->iov_count == 1, "a message has %zu parts", msg->iov_count);
	struct region *region =
		used(msg->desc[0], msg->msg_iov->iov_base, msg->msg_iov->iov_len, FI_SEND);
	check_free(msg->context);
	if (is_refused())
		return -FI_EAGAIN;
	if (flags & FI_DELIVERY_COMPLETE && setting("FI_STRICT_UNSURE", 0))
		return -FI_EIO;
	below.desc = NULL;
	return begun(msg_below.sendmsg(ep, &below, flags), msg->context, region);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return INSIDE(do_sendmsg(ep, msg, flags));
}

static struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendmsg = msg_sendmsg,
};

/* The offset below of an address at the target. */
static uint64_t offset_of(uint64_t address, uint64_t key)
{
	return address - (key & ~(PAGE - 1));
}

static ssize_t do_read(struct fid_ep *ep, void *start, size_t len, void *desc, fi_addr_t from,
		       uint64_t address, uint64_t key, void *context)
{
	struct region *region = used(desc, start, len, FI_READ);
	check_free(context);
	if (is_refused())
		return -FI_EAGAIN;
	address = offset_of(address, key);
	return begun(rma_below.read(ep, start, len, NULL, from, address, key, context), context,
		     region);
}

static ssize_t rma_read(struct fid_ep *ep, void *start, size_t len, void *desc, fi_addr_t from,
			uint64_t address, uint64_t key, void *context)
{
	return INSIDE(do_read(ep, start, len, desc, from, address, key, context));
}

static ssize_t do_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct fi_msg_rma below = *msg;
	DEMAND(msg->iov_count == 1 && msg->rma_iov_count == 1, "a write has several parts");
	DEMAND(flags & FI_DELIVERY_COMPLETE, "a write says nothing about the target");
	struct region *region =
		used(msg->desc[0], msg->msg_iov->iov_base, msg->msg_iov->iov_len, FI_WRITE);
	check_free(msg->context);
	if (is_refused())
		return -FI_EAGAIN;
	struct fi_rma_iov there = *msg->rma_iov;
	there.addr = offset_of(there.addr, there.key);
	below.desc = NULL;
	below.rma_iov = &there;
	return begun(rma_below.writemsg(ep, &below, flags), msg->context, region);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return INSIDE(do_writemsg(ep, msg, flags));
}

static struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.writemsg = rma_writemsg,
};

static enum atomics atomics(void)
{
	return setting("FI_STRICT_ATOMICS", ATOMICS_NONE);
}

/* The registration of the result of an atomic. */
static struct region *result_of(const struct fi_msg_atomic *msg, const struct fi_ioc *results,
				void **descs, uint64_t flags)
{
	size_t len = msg->datatype == FI_UINT32 || msg->datatype == FI_INT32 ? 4 : 8;
	DEMAND(msg->iov_count == 1 && msg->rma_iov_count == 1 && results->count == 1,
	       "an atomic has several words");
	DEMAND(msg->op == FI_ATOMIC_READ || flags & FI_DELIVERY_COMPLETE,
	       "an atomic says nothing about the target");
	used(msg->desc[0], msg->msg_iov->addr, len, FI_WRITE);
	check_free(msg->context);
	n_atomics++;
	return used(descs[0], results->addr, len, FI_READ);
}

static ssize_t do_fetch(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *results,
			void **descs, uint64_t flags)
{
	struct fi_msg_atomic below = *msg;
	struct fi_rma_ioc there = *msg->rma_iov;
	struct region *region = result_of(msg, results, descs, flags);
	if (atomics() == ATOMICS_REFUSED)
		return -FI_ENOSYS;
	if (is_refused())
		return -FI_EAGAIN;
	there.addr = offset_of(there.addr, there.key);
	below.desc = NULL;
	below.rma_iov = &there;
	return begun(atomic_below.readwritemsg(ep, &below, results, NULL, 1, flags), msg->context,
		     region);
}

static ssize_t fetch(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *results,
		     void **descs, size_t count, uint64_t flags)
{
	DEMAND(count == 1, "an atomic has several results");
	return INSIDE(do_fetch(ep, msg, results, descs, flags));
}

static ssize_t do_swap(struct fid_ep *ep, const struct fi_msg_atomic *msg,
		       const struct fi_ioc *compares, void **compare_descs, struct fi_ioc *results,
		       void **descs, uint64_t flags)
{
	struct fi_msg_atomic below = *msg;
	struct fi_rma_ioc there = *msg->rma_iov;
	struct region *region = result_of(msg, results, descs, flags);
	used(compare_descs[0], compares->addr, 4, FI_WRITE);
	if (atomics() == ATOMICS_REFUSED)
		return -FI_ENOSYS;
	if (is_refused())
		return -FI_EAGAIN;
	there.addr = offset_of(there.addr, there.key);
	below.desc = NULL;
	below.rma_iov = &there;
	return begun(atomic_below.compwritemsg(ep, &below, compares, NULL, 1, results, NULL, 1,
					       flags),
		     msg->context, region);
}

static ssize_t swap(struct fid_ep *ep, const struct fi_msg_atomic *msg,
		    const struct fi_ioc *compares, void **compare_descs, size_t compare_count,
		    struct fi_ioc *results, void **descs, size_t count, uint64_t flags)
{
	DEMAND(count == 1 && compare_count == 1, "an atomic has several results");
	return INSIDE(do_swap(ep, msg, compares, compare_descs, results, descs, flags));
}

static int fetch_valid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	if (atomics() == ATOMICS_NONE || atomics() == ATOMICS_SWAPS)
		return -FI_EOPNOTSUPP;
	return atomic_below.readwritevalid(ep, datatype, op, count);
}

static int swap_valid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	if (atomics() == ATOMICS_NONE)
		return -FI_EOPNOTSUPP;
	return atomic_below.compwritevalid(ep, datatype, op, count);
}

static struct fi_ops_atomic atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.readwritemsg = fetch,
	.compwritemsg = swap,
	.readwritevalid = fetch_valid,
	.compwritevalid = swap_valid,
};

/* Completions. */

static ssize_t do_cq_read(struct fid_cq *cq, void *entries, size_t count)
{
	ssize_t n = cq_below.read(cq, entries, count), kept = 0;
	struct fi_cq_data_entry *entry = entries;
	int joins = setting("FI_STRICT_MANY", MANY_APART) == MANY_JOINED;
	if (n <= 0)
		return n;
	for (ssize_t i = 0; i < n; i++) {
		struct fi_context2 *room = entry[i].op_context;
		uint64_t what = entry[i].flags & (FI_RECV | FI_MULTI_RECV);
		if (!room || room->internal[2] != BUSY) {
			complete(room);
		} else if (what & FI_MULTI_RECV) {
			complete(room);
			if (joins && what == FI_MULTI_RECV && kept && entry[kept - 1].op_context == room) {
				entry[kept - 1].flags |= FI_MULTI_RECV;
				continue;
			}
		} else {
			DEMAND(room->internal[0] == BUSY, "the memory of a context was changed");
		}
		entry[kept++] = entry[i];
	}
	return kept;
}

static ssize_t cq_read(struct fid_cq *cq, void *entries, size_t count)
{
	return INSIDE(do_cq_read(cq, entries, count));
}

static ssize_t do_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	ssize_t n = cq_below.readerr(cq, entry, flags);
	if (n > 0)
		complete(entry->op_context);
	return n;
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	return INSIDE(do_cq_readerr(cq, entry, flags));
}

/* Objects, with their tables exchanged. */

/* What the provider below has offered. */
static struct fi_info *info_below(const struct fi_info *info)
{
	struct fi_info *below = fi_dupinfo(info);
	below->mode = 0;
	below->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	if (atomics() == ATOMICS_NONE) {
		below->caps &= ~FI_ATOMIC;
		below->tx_attr->caps &= ~FI_ATOMIC;
		below->rx_attr->caps &= ~FI_ATOMIC;
	}
	below->tx_attr->mode = below->rx_attr->mode = 0;
	below->tx_attr->inject_size = INJECT;
	below->domain_attr->mr_mode = 0;
	free(below->fabric_attr->prov_name);
	below->fabric_attr->prov_name = strdup(BELOW);
	return below;
}

static int endpoint_control(struct fid *fid, int command, void *argument)
{
	struct fid_ep *ep = (struct fid_ep *)fid;
	int outcome = endpoint_fid_below.control(fid, command, argument);
	if (command == FI_ENABLE && !outcome) {
		msg_below = *ep->msg;
		rma_below = *ep->rma;
		if (ep->atomic)
			atomic_below = *ep->atomic;
		ep->msg = &msg_ops;
		ep->rma = &rma_ops;
		ep->atomic = &atomic_ops;
	}
	return outcome;
}

static int endpoint_close(struct fid *fid)
{
	for (struct region *region = regions; region; region = region->next)
		if (region->access & REMOTE)
			return -FI_EBUSY;
	int outcome = INSIDE(endpoint_fid_below.close(fid));
	has_endpoint = 0;
	return outcome;
}

static int endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		    void *context)
{
	static struct fi_ops ops;
	struct fi_info *below = info_below(info);
	int outcome = domain_below.endpoint(domain, below, ep, context);
	fi_freeinfo(below);
	if (outcome)
		return outcome;
	DEMAND(!has_endpoint, "a test has one endpoint");
	has_endpoint = 1;
	has_many = !!(info->caps & FI_MULTI_RECV);
	ops = endpoint_fid_below = *(*ep)->fid.ops;
	ops.control = endpoint_control;
	ops.close = endpoint_close;
	(*ep)->fid.ops = &ops;
	return 0;
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	static struct fi_ops_cq ops;
	DEMAND(attr->format == FI_CQ_FORMAT_DATA, "completions of another format");
	int outcome = domain_below.cq_open(domain, attr, cq, context);
	if (outcome)
		return outcome;
	ops = cq_below = *(*cq)->ops;
	ops.read = cq_read;
	ops.readerr = cq_readerr;
	(*cq)->ops = &ops;
	return 0;
}

static int domain_close(struct fid *fid)
{
	DEMAND(!regions, "%lu bytes are registered in the end", (unsigned long)n_bytes);
	if (setting("FI_STRICT_TELL", 0))
		fprintf(stderr,
			"strict has posted %lu receives, %lu of them of many messages; %lu atomics\n",
			(unsigned long)n_receives, (unsigned long)n_receives_of_many,
			(unsigned long)n_atomics);
	return domain_fid_below.close(fid);
}

static int domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		  void *context)
{
	static struct fi_ops fid_ops;
	static struct fi_ops_domain ops;
	struct fi_info *below = info_below(info);
	int outcome = fabric_below.domain(fabric, below, domain, context);
	fi_freeinfo(below);
	if (outcome)
		return outcome;
	fid_ops = domain_fid_below = *(*domain)->fid.ops;
	fid_ops.close = domain_close;
	ops = domain_below = *(*domain)->ops;
	ops.endpoint = endpoint;
	ops.cq_open = cq_open;
	mr_below = *(*domain)->mr;
	(*domain)->fid.ops = &fid_ops;
	(*domain)->ops = &ops;
	(*domain)->mr = &mr_ops;
	return 0;
}

static int fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	static struct fi_ops_fabric ops;
	struct fi_fabric_attr below = *attr;
	below.prov_name = BELOW;
	int outcome = fi_fabric(&below, fabric, context);
	if (outcome)
		return outcome;
	ops = fabric_below = *(*fabric)->ops;
	ops.domain = domain;
	(*fabric)->ops = &ops;
	return 0;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	(void)flags;
	int has_all = hints && hints->ep_attr &&
		      (hints->ep_attr->type == FI_EP_RDM || hints->ep_attr->type == FI_EP_UNSPEC) &&
		      hints->domain_attr && (hints->domain_attr->mr_mode & MODES) == MODES &&
		      hints->mode & FI_CONTEXT2;
	if (!has_all)
		return -FI_ENODATA;
	uint64_t lacked = setting("FI_STRICT_LACKS", 0);
	if (hints->caps & lacked)
		return -FI_ENODATA;
	int asked = !!(hints->caps & FI_MULTI_RECV);
	if (asked && setting("FI_STRICT_MANY", MANY_APART) == MANY_NONE)
		return -FI_ENODATA;
	struct fi_info *below = fi_dupinfo(hints);
	below->mode = 0;
	below->caps &= ~FI_ATOMIC;
	below->ep_attr->type = FI_EP_RDM;
	below->domain_attr->mr_mode = 0;
	free(below->fabric_attr->prov_name);
	below->fabric_attr->prov_name = strdup(BELOW);
	int outcome = fi_getinfo(version, node ? node : "127.0.0.1", service, FI_SOURCE, below, info);
	fi_freeinfo(below);
	for (struct fi_info *it = outcome ? NULL : *info; it; it = it->next) {
		uint64_t unfit = setting("FI_STRICT_UNFIT", UNFIT_NOT);
		it->mode = FI_CONTEXT2 | (unfit == UNFIT_MODE ? FI_ASYNC_IOV : 0);
		if (unfit == UNFIT_ORDER)
			it->tx_attr->msg_order &= ~FI_ORDER_SAS;
		it->caps = (it->caps | FI_ATOMIC) & ~lacked;
		it->tx_attr->caps |= FI_ATOMIC;
		it->rx_attr->caps |= FI_ATOMIC;
		if (!asked) {
			it->caps &= ~FI_MULTI_RECV;
			it->rx_attr->caps &= ~FI_MULTI_RECV;
		}
		if (setting("FI_STRICT_AUTO", 0))
			it->domain_attr->data_progress = FI_PROGRESS_AUTO;
		it->tx_attr->inject_size = 0;
		it->domain_attr->mr_mode = MODES;
		free(it->fabric_attr->prov_name);
		it->fabric_attr->prov_name = NULL;
	}
	return outcome;
}

static void cleanup(void) {}

FI_EXT_INI
{
	static struct fi_provider provider = {
		.version = FI_VERSION(1, 0),
		.fi_version = FI_VERSION(1, 17),
		.name = "strict",
		.getinfo = getinfo,
		.fabric = fabric,
		.cleanup = cleanup,
	};
	return &provider;
}
