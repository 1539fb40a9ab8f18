//! Categories of CPU time: which work the functions of a stack do.
//!
//! The table has functions, and the innermost function of a stack that it has decides. Functions that work for several others, such as
//! those that read a clock, are not in the table, so that their callers decide.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calls::{KERNEL, UNKNOWN};

/// What CPU time is spent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the table has the words")]
pub enum Category {
    Application,
    Runtime,
    SystemCalls,
    Events,
    Send,
    Receive,
    Softirq,
    Scheduling,
    Copies,
    Memory,
    Files,
    Locks,
    Interrupts,
    Hypervisor,
}

use Category::{
    Application, Copies, Events, Files, Hypervisor, Interrupts, Locks, Memory, Receive, Runtime, Scheduling, Send,
    Softirq, SystemCalls,
};

/// The categories in the order of tables, with the words for tables and sentences.
pub const CATEGORIES: [(Category, &str, &str); 14] = [
    (Application, "application", "the server's own code"),
    (Runtime, "runtime", "the runtime"),
    (SystemCalls, "system calls", "entry and exit of system calls"),
    (Events, "event mechanism", "the event mechanism"),
    (Send, "send path", "the send path"),
    (Receive, "receive path", "the receive path"),
    (Softirq, "softirq", "arriving packets (softirq)"),
    (Scheduling, "wake-ups, scheduler", "wake-ups and the scheduler"),
    (Copies, "copies", "copies"),
    (Memory, "memory", "memory"),
    (Files, "files", "files"),
    (Locks, "locks", "locks"),
    (Interrupts, "interrupts", "interrupts"),
    (Hypervisor, "hypervisor", "the hypervisor"),
];

impl Category {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        CATEGORIES[self as usize].1
    }

    /// Returns the words of sentences, as in "0.1 µs more for the send path".
    pub fn words(self) -> &'static str {
        CATEGORIES[self as usize].2
    }
}

/// Functions of the kernel, with `*` for any end. An exact name precedes a pattern, and a longer pattern precedes a shorter one. The names
/// are those of Linux 6.1 to 6.18 on x86-64 and arm64.
const OF_KERNEL: &[(Category, &str)] = &[
    (
        Events,
        "ep_* do_epoll_* __do_sys_epoll_* __x64_sys_epoll_* epoll_* eventpoll_* __ep_* io_* __io_* __do_sys_io_uring* \
         __x64_sys_io_uring_* tctx_task_work* handle_tw_list* do_sys_poll* do_poll* do_select* core_sys_select* do_pselect* \
         kern_select* __pollwait* poll_* sock_poll* tcp_poll* udp_poll* unix_poll* unix_stream_poll* eventfd_* __x64_sys_poll \
         __x64_sys_ppoll __x64_sys_select __x64_sys_pselect6 __do_sys_poll __do_sys_ppoll set_fd_set* select_estimate_accuracy* \
         datagram_poll* pipe_poll* req_* sock_uring_cmd* napi_busy_loop* __napi_busy_loop* sk_busy_loop*",
    ),
    (
        Send,
        "__x64_sys_sendto __x64_sys_sendmsg __x64_sys_sendmmsg __sys_send* ___sys_send* ____sys_sendmsg* sock_sendmsg* \
         __sock_sendmsg* sock_write_iter* tcp_sendmsg* tcp_push* __tcp_push_pending_frames tcp_write_xmit* __tcp_transmit_skb \
         tcp_send_* __tcp_send_ack* tcp_tsq_* tcp_tasklet_* tcp_current_mss tcp_send_mss tcp_rate_skb_sent tcp_stream_alloc_skb \
         tcp_skb_entail tcp_wmem_schedule tcp_established_options tcp_options_write tcp_pacing_check tcp_event_new_data_sent \
         tcp_small_queue_check* tcp_v4_send_check __tcp_v4_send_check ip_queue_xmit* __ip_queue_xmit ip_local_out* __ip_local_out \
         ip_output* ip_finish_output* __ip_finish_output ip_send_* ip_make_skb* ip_append_data* __ip_append_data ip_setup_cork* \
         ip6_xmit* ip6_output* ip6_finish_output* ip6_local_out* ip6_send_* inet6_csk_xmit* inet_sendmsg* inet6_sendmsg* \
         udp_sendmsg* udpv6_sendmsg* udp_send_skb* udp_push_pending_frames* unix_stream_sendmsg* unix_dgram_sendmsg* \
         __dev_queue_xmit dev_queue_xmit* dev_hard_start_xmit* xmit_one* loopback_xmit* veth_xmit* validate_xmit_* \
         netif_skb_features netif_rx* __netif_rx enqueue_to_backlog* neigh_* dst_* sock_wmalloc* skb_clone* skb_copy_datagram_from* \
         tls_sw_sendmsg* tls_push* sch_direct_xmit* __qdisc_run* pfifo_* fq_* tcp_cwnd_* tcp_chrono_* sk_stream_* sock_alloc_send* \
         __ip_make_skb skb_zerocopy* io_send* __sys_shutdown* tcp_shutdown* tcp_send_fin tcp_sendpage* splice_to_socket*",
    ),
    (
        Receive,
        "__x64_sys_recvfrom __x64_sys_recvmsg __x64_sys_recvmmsg __sys_recv* ___sys_recv* ____sys_recvmsg* do_recvmmsg* \
         sock_recvmsg* __sock_recvmsg* sock_read_iter* inet_recvmsg* inet6_recvmsg* tcp_recvmsg* tcp_recv_* tcp_cleanup_rbuf* \
         __tcp_cleanup_rbuf* tcp_rcv_space_adjust* tcp_eat_recv_skb* tcp_update_recv_tstamps tcp_inq* skb_copy_datagram_iter* \
         __skb_datagram_iter* simple_copy_to_iter* udp_recvmsg* udpv6_recvmsg* __skb_recv_udp* __skb_try_recv* __skb_recv_datagram* \
         skb_consume_udp* skb_recv_udp* unix_stream_recvmsg* unix_stream_read_* unix_dgram_recvmsg* release_sock __release_sock \
         tls_sw_recvmsg* tls_rx_* io_recv* __sk_flush_backlog inet_csk_accept* inet_accept* __sys_accept* do_accept* \
         __x64_sys_accept* tcp_rbtree_*",
    ),
    (
        Softirq,
        "__do_softirq handle_softirqs do_softirq* __local_bh_enable_ip net_rx_action* __napi_poll* process_backlog* \
         __netif_receive_skb* netif_receive_skb* napi_* dev_gro_receive* gro_* ip_rcv* ip_list_rcv* ip_local_deliver* \
         ip_protocol_deliver_rcu ip_sublist_rcv* ip6_rcv* ipv6_rcv* ip6_input* tcp_v4_rcv* tcp_v6_rcv* tcp_v4_fill_cb \
         tcp_v4_early_demux __inet_lookup_* inet_lookup_* udp_rcv* __udp4_lib_rcv* __udp4_lib_lookup* udp_queue_rcv_* \
         udp_unicast_rcv_skb __udp_enqueue_schedule_skb udpv6_* net_tx_action* run_ksoftirqd* irq_exit_rcu* __irq_exit_rcu \
         veth_poll* tcp_child_process tcp_check_req",
    ),
    (
        Scheduling,
        "schedule schedule_* __schedule preempt_schedule* __cond_resched _cond_resched finish_task_switch* __switch_to* \
         context_switch* prepare_task_switch* pick_next_* pick_task_* __pick_* put_prev_* set_next_* dequeue_* enqueue_task* \
         enqueue_entity* try_to_wake_up ttwu_* __ttwu_* wake_up_* __wake_up* autoremove_wake_function default_wake_function \
         woken_wake_function pollwake receiver_wake_function ep_poll_callback ep_autoremove_wake_function io_poll_wake sched_* \
         select_task_rq* select_idle_* wakeup_preempt* check_preempt_* resched_curr* __resched_curr activate_task* deactivate_task* \
         update_curr* update_load_avg* update_rq_clock* reweight_* place_entity* avg_vruntime* balance_fair newidle_balance* \
         sched_balance_* load_balance* find_busiest_* sock_def_readable sock_def_write_space sk_stream_write_space schedule_timeout* \
         prepare_to_wait* finish_wait* sk_wait_data* wait_woken* task_non_contending* perf_event_task_* \
         __perf_event_task_* switch_mm_irqs_off switch_fpu_return* exit_to_user_mode_loop io_cqring_wait_schedule \
         __x64_sys_sched_yield do_sched_yield yield_* set_user_nice* __calc_delta vruntime_eligible cpuacct_charge psi_*",
    ),
    (
        Copies,
        "_copy_* copy_user_* copy_from_user* copy_to_user* __copy_user_* __copy_from_user* __copy_to_user* raw_copy_* rep_movs_alternative rep_stos_alternative \
         copyin* copyout* copy_page_from_iter* copy_page_to_iter* memcpy* __memcpy* memmove* __memmove* memset* __memset* clear_user* \
         csum_partial_copy_* csum_and_copy_* skb_copy_bits* copy_mc_* __arch_copy_*",
    ),
    (
        Memory,
        "kmem_cache_* __kmem_cache_* kmalloc* __kmalloc* kfree* __kfree* kvfree* ___slab_alloc* __slab_* slab_* get_partial* \
         put_cpu_partial* alloc_pages* __alloc_pages* __alloc_frozen_pages* get_page_from_freelist* rmqueue* free_unref_* \
         free_frozen_* free_pages* __free_* free_to_* __folio_* folio_* release_pages* __put_page* put_page* sk_page_frag_refill \
         skb_page_frag_refill page_frag_* __alloc_skb alloc_skb* __build_skb* build_skb* napi_skb_cache_* skb_release_* \
         __kfree_skb consume_skb kfree_skb* sk_skb_reason_drop skb_attempt_defer_free skb_free_head* kfree_skbmem* __napi_kfree_skb* \
         tcp_stream_alloc* sock_wfree* tcp_wfree* sock_rfree* mem_cgroup_* obj_cgroup_* __memcg_* memcg_* refill_stock* try_charge* \
         handle_mm_fault* __handle_mm_fault* do_user_addr_fault* exc_page_fault asm_exc_page_fault do_anonymous_page* do_fault* \
         do_wp_page* wp_page_copy* clear_page* clear_huge_page* clear_subpage* vma_alloc_* mmap_* do_mmap* vm_mmap* __vm_munmap \
         do_vmi_* unmap_* zap_* tlb_* flush_tlb_* lru_* charge_memcg* __x64_sys_mmap __x64_sys_munmap __x64_sys_madvise do_madvise* \
         madvise_* mas_* vma_* find_vma* lock_vma_* change_protection* mprotect_*",
    ),
    (
        Files,
        "filemap_* generic_file_* ext4_* xfs_* btrfs_* overlay_* ovl_* shmem_* do_filp_open* path_openat* do_sys_open* \
         do_sendfile* splice_* do_splice* pipe_read* pipe_write* anon_pipe_* vfs_fstat* vfs_stat* page_cache_* do_dentry_open* \
         link_path_walk* lookup_* dput* __x64_sys_openat __x64_sys_newfstat* __x64_sys_sendfile64 iomap_* tmpfs_*",
    ),
    (
        Locks,
        "native_queued_spin_lock_slowpath queued_spin_lock_slowpath* __pv_queued_spin_lock_slowpath \
         __raw_callee_save___pv_queued_spin_* queued_read_lock_slowpath* queued_write_lock_slowpath* mutex_* __mutex_* \
         rwsem_* down_* __down_* up_read* up_write* futex_* __futex_* do_futex* __x64_sys_futex* __lock_sock* lock_sock_* rt_mutex_* \
         osq_lock* __x64_sys_futex_* get_futex_key*",
    ),
    (
        Interrupts,
        "asm_sysvec_* sysvec_* asm_common_interrupt common_interrupt __sysvec_* irqentry_* irq_enter* tick_* hrtimer_interrupt \
         __hrtimer_run_queues run_timer_softirq run_timer_base* __run_timers* call_timer_fn* expire_timers* handle_irq_* \
         handle_edge_irq handle_fasteoi_irq generic_handle_* __handle_irq_* update_process_times rcu_core* rcu_do_batch* \
         rcu_sched_clock_irq* task_work_run asm_exc_nmi el1h_64_irq* el0_irq* gic_handle_irq* do_interrupt_handler* \
         perf_swevent_hrtimer* perf_event_overflow* tmigr_*",
    ),
    (
        Hypervisor,
        "pv_* kvm_* __raw_callee_save___kvm_* hv_* xen_* pvclock_* native_write_msr* native_read_msr* x2apic_* native_apic_* \
         default_send_IPI_* __x2apic_* native_smp_send_reschedule native_send_call_func_* smp_call_function* generic_exec_single* \
         __smp_call_single_queue* send_call_function_single_ipi* flush_smp_call_function_queue* __flush_smp_call_function_queue \
         asm_exc_hv* __hvc_* arm_smccc_*",
    ),
];

/// Functions of system calls themselves. They decide for the functions that they call if those are at most [`NEAR`] deep: a deeper one
/// does work that the table lacks.
const OF_SYSTEM_CALLS: &str = "entry_SYSCALL_64* do_syscall_64 syscall_* __x64_sys_* __arm64_sys_* __do_sys_* __se_sys_* x64_sys_call \
     el0_svc* el0t_64_sync* do_el0_svc invoke_syscall* syscall_exit_to_user_mode* syscall_enter_from_user_mode* sockfd_lookup_* \
     ksys_* vfs_read vfs_write vfs_readv vfs_writev do_iter_* rw_verify_area entry_SYSRETQ_unsafe_stack exit_to_user_mode_prepare __audit_* filp_close* close_fd* \
     file_close_fd* entry_* srso_* retbleed_* clear_bhb_loop move_addr_to_* rseq_* __rseq_* arch_exit_to_user_mode_* seccomp_* \
     __seccomp_* fd_install* do_fcntl* setfl* new_sync_*";
const NEAR: usize = 2;

/// Functions of processes, as the kernel's table. All others are of the application. A stripped C library names its allocator, but not its
/// many ways to copy memory.
const OF_PROCESSES: &[(Category, &str)] = &[
    (Events, "io_uring::* <io_uring::*"),
    (
        Runtime,
        "tokio:: <tokio:: mio:: <mio:: smol:: async_io:: <async_io:: async_executor:: <async_executor:: async_task:: polling:: \
         <polling:: may:: <may:: generator:: <generator:: monoio:: <monoio:: glommio:: <glommio:: compio* <compio* futures_* \
         <futures_* concurrent_queue:: crossbeam_* async_lock:: event_listener:: runtime.* internal/runtime/* internal/poll.* uv_* \
         uv__* v8::* node::* ev_* event_base_* java.* jdk.* Interpreter libuv* [libuv* [libevent* [libev.* [libjvm.so] [libnode* \
         PyEval_* _PyEval_* [libpython*",
    ),
    (
        SystemCalls,
        "syscall __send send __libc_send recv __recv __libc_recv read __read __libc_read write __write __libc_write sendto __sendto \
         recvfrom __recvfrom epoll_wait epoll_pwait epoll_ctl poll __poll ppoll select __select accept4 accept readv writev sendmsg \
         recvmsg __syscall_* runtime/internal/syscall.* internal/runtime/syscall.* syscall.* io_uring_enter* __syscall_cancel* \
         __internal_syscall_cancel sched_yield __sched_yield rustix::backend::* __io_uring_*",
    ),
    (
        Copies,
        "memcpy* __memcpy* memmove* __memmove* memset* __memset* __rep_movsb __rep_stosb runtime.memmove runtime.memclr* bcopy bzero \
         compiler_builtins::mem::* [libc.so* [libc-2*",
    ),
    (
        Memory,
        "mi_* _mi_* malloc* __libc_malloc* _int_malloc* free __libc_free* _int_free* cfree* calloc* realloc* __rdl_* __rust_alloc* \
         __rust_dealloc* __rust_realloc* unlink_chunk* malloc_consolidate* sysmalloc* je_* tc_* ngx_palloc* ngx_pnalloc* runtime.malloc* \
         runtime.newobject runtime.makeslice runtime.gc* runtime.scan* runtime.mark* runtime.sweep* operator*",
    ),
    (
        Locks,
        "pthread_mutex_* __pthread_mutex_* ___pthread_mutex_* __lll_lock_* lll_* pthread_cond_* __pthread_cond_* ___pthread_cond_* \
         pthread_rwlock_* parking_lot* <parking_lot* std::sys::sync::mutex::* std::sys::sync::condvar::* std::sync::mpmc* \
         runtime.lock* runtime.unlock* runtime.futex* sync.* __new_sem_* sem_wait* futex_wait*",
    ),
];

/// What a function says about a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Decides(Category),
    /// It decides for functions that are at most [`NEAR`] deeper.
    DecidesNear,
}

/// Sorts stacks into categories. Remembers what it found about each function.
pub struct Classifier {
    kernel: Patterns,
    process: Patterns,
    known: HashMap<String, Option<Rule>>,
}

impl Default for Classifier {
    fn default() -> Self {
        let decides =
            |table: &[(Category, &'static str)]| table.iter().map(|(it, names)| (Rule::Decides(*it), *names)).collect();
        let mut kernel: Vec<(Rule, &'static str)> = decides(OF_KERNEL);
        kernel.push((Rule::DecidesNear, OF_SYSTEM_CALLS));
        Self { kernel: Patterns::new(kernel), process: Patterns::new(decides(OF_PROCESSES)), known: HashMap::new() }
    }
}

impl Classifier {
    /// Returns the category of a stack, from the outermost function to the innermost one; `None` if no rule explains it.
    pub fn category(&mut self, stack: &[&str]) -> Option<Category> {
        let mut depth = 0;
        for name in stack.iter().rev() {
            let is_kernel = name.ends_with(KERNEL);
            match self.rule(name) {
                Some(Rule::Decides(category)) if is_kernel || depth == 0 => return Some(category),
                Some(Rule::DecidesNear) if depth <= NEAR => return Some(SystemCalls),
                // The rest of the stack says who called the kernel, and not what it does.
                _ if !is_kernel => return (depth == 0 && *name != UNKNOWN).then_some(Application),
                _ => depth += 1,
            }
        }
        None
    }

    fn rule(&mut self, name: &str) -> Option<Rule> {
        if let Some(rule) = self.known.get(name) {
            return *rule;
        }
        let rule = match name.strip_suffix(KERNEL) {
            Some(function) => self.kernel.find(function),
            None => self.process.find(name),
        };
        self.known.insert(name.to_owned(), rule);
        rule
    }
}

/// Names, and beginnings of names from the longest to the shortest.
struct Patterns {
    exact: HashMap<&'static str, Rule>,
    beginnings: Vec<(&'static str, Rule)>,
}

impl Patterns {
    fn new(table: Vec<(Rule, &'static str)>) -> Self {
        let (mut exact, mut beginnings) = (HashMap::new(), Vec::new());
        for (rule, names) in table {
            for name in names.split_whitespace() {
                match name.strip_suffix('*').or(name.ends_with("::").then_some(name)) {
                    Some(beginning) => beginnings.push((beginning, rule)),
                    None => drop(exact.insert(name, rule)),
                }
            }
        }
        beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        Self { exact, beginnings }
    }

    fn find(&self, name: &str) -> Option<Rule> {
        let by_beginning =
            || self.beginnings.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, rule)| *rule);
        self.exact.get(name).copied().or_else(by_beginning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_stand_in_their_order() {
        for (at, (category, name, words)) in CATEGORIES.iter().enumerate() {
            assert_eq!((*category as usize, category.name(), category.words()), (at, *name, *words));
        }
    }

    #[test]
    fn no_function_is_in_two_categories() {
        for table in [OF_KERNEL, OF_PROCESSES] {
            let mut seen = HashMap::new();
            for (category, names) in table {
                for name in names.split_whitespace() {
                    assert_eq!(seen.insert(name, *category), None, "{name} is twice in the table");
                }
            }
        }
    }
}
