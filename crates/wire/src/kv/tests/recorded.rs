//! Recorded replies of memcached 1.6.18. Each conversation took place line by line, on one connection to a new process that
//! ran without the unsupported features: `memcached -U 0 -W -o no_lru_crawler,no_lru_maintainer,no_slab_reassign`.

/// Input and output of each conversation.
pub const RECORDED: &[(&str, &str)] = &[
    (
        "get a\r\n\
         set a 0 0 5\r\n\
         hello\r\n\
         get a\r\n\
         get a b a\r\n\
         gets a\r\n\
         get a\n",
        "END\r\n\
         STORED\r\n\
         VALUE a 0 5\r\n\
         hello\r\n\
         END\r\n\
         VALUE a 0 5\r\n\
         hello\r\n\
         VALUE a 0 5\r\n\
         hello\r\n\
         END\r\n\
         VALUE a 0 5 1\r\n\
         hello\r\n\
         END\r\n\
         VALUE a 0 5\r\n\
         hello\r\n\
         END\r\n",
    ),
    (
        "\x20 get   a   b  \r\n\
         get\r\n\
         gets\r\n\
         get \r\n\
         GET a\r\n\
         getx a\r\n\
         g\r\n\
         \r\n\
         \n\
         \r\r\n\
         get a\tb\r\n\
         bget a\r\n",
        "END\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         END\r\n\
         END\r\n",
    ),
    (
        "set a 7 0 0\r\n\
         \r\n\
         get a\r\n\
         set b 4294967295 0 2\r\n\
         \r\n\
         \r\n\
         get b\r\n\
         set c 4294967296 0 1\r\n\
         c\r\n\
         get c\r\n\
         set d -1 0 1\r\n\
         d\r\n\
         set e 18446744073709551616 0 1\r\n\
         e\r\n",
        "STORED\r\n\
         VALUE a 7 0\r\n\
         \r\n\
         END\r\n\
         STORED\r\n\
         VALUE b 4294967295 2\r\n\
         \r\n\
         \r\n\
         END\r\n\
         STORED\r\n\
         VALUE c 0 1\r\n\
         c\r\n\
         END\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n",
    ),
    (
        "set a 0 0 1 noreply\r\n\
         x\r\n\
         get a\r\n\
         set a 0 0 1 other\r\n\
         y\r\n\
         get a\r\n\
         set a 0 0 1 noreply z\r\n",
        "VALUE a 0 1\r\n\
         x\r\n\
         END\r\n\
         STORED\r\n\
         VALUE a 0 1\r\n\
         y\r\n\
         END\r\n\
         ERROR\r\n",
    ),
    (
        "set a 0 0 1\r\n\
         abc\r\n\
         set a 0 0 3\r\n\
         abcd\r\n\
         set a 0 0 1 noreply\r\n\
         abget a\r\n\
         get a\r\n",
        "CLIENT_ERROR bad data chunk\r\n\
         ERROR\r\n\
         CLIENT_ERROR bad data chunk\r\n\
         ERROR\r\n\
         ERROR\r\n\
         END\r\n",
    ),
    (
        "set a 0 0 -1\r\n\
         set a 0 x 1\r\n\
         set a x 0 1\r\n\
         set a 0 0 x\r\n\
         set a 0 0 2147483646\r\n\
         set a 0 0\r\n\
         set\r\n\
         set a 0 0 -1 noreply\r\n",
        "CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n\
         ERROR\r\n",
    ),
    (
        "get kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n",
        "CLIENT_ERROR bad command line format\r\n",
    ),
    (
        "get a kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         set kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 0 0 1\r\n\
         incr kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 1\r\n\
         touch kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 1\r\n\
         delete kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         set kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 0 0 1\r\n\
         x\r\n\
         get kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n",
        "CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         STORED\r\n\
         VALUE kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 0 1\r\n\
         x\r\n\
         END\r\n",
    ),
    (
        "add a 1 0 1\r\n\
         1\r\n\
         add a 2 0 1\r\n\
         2\r\n\
         replace a 3 0 1\r\n\
         3\r\n\
         replace b 4 0 1\r\n\
         4\r\n\
         append a 5 0 2\r\n\
         56\r\n\
         prepend a 6 0 2\r\n\
         12\r\n\
         append b 0 0 1\r\n\
         7\r\n\
         prepend b 0 0 1\r\n\
         8\r\n\
         get a b\r\n",
        "STORED\r\n\
         NOT_STORED\r\n\
         STORED\r\n\
         NOT_STORED\r\n\
         STORED\r\n\
         STORED\r\n\
         NOT_STORED\r\n\
         NOT_STORED\r\n\
         VALUE a 3 5\r\n\
         12356\r\n\
         END\r\n",
    ),
    (
        "cas a 0 0 1 1\r\n\
         x\r\n\
         set a 0 0 1\r\n\
         1\r\n\
         gets a\r\n\
         cas a 0 0 1 1\r\n\
         2\r\n\
         cas a 0 0 1 1\r\n\
         3\r\n\
         gets a\r\n\
         cas a 0 0 1 x\r\n\
         cas a 0 0 1\r\n\
         cas a 0 0 1 2 noreply\r\n\
         4\r\n\
         get a\r\n\
         cas a 0 0 1 2 noreply\r\n\
         5\r\n\
         get a\r\n",
        "NOT_FOUND\r\n\
         STORED\r\n\
         VALUE a 0 1 1\r\n\
         1\r\n\
         END\r\n\
         STORED\r\n\
         EXISTS\r\n\
         VALUE a 0 1 2\r\n\
         2\r\n\
         END\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n\
         VALUE a 0 1\r\n\
         4\r\n\
         END\r\n\
         VALUE a 0 1\r\n\
         4\r\n\
         END\r\n",
    ),
    (
        "set n 0 0 2\r\n\
         12\r\n\
         incr n 5\r\n\
         incr n +5\r\n\
         decr n 2\r\n\
         decr n 18\r\n\
         get n\r\n\
         incr n 99\r\n\
         get n\r\n\
         incr n 1 noreply\r\n\
         get n\r\n\
         decr n 1000\r\n\
         get n\r\n",
        "STORED\r\n\
         17\r\n\
         22\r\n\
         20\r\n\
         2\r\n\
         VALUE n 0 2\r\n\
         2 \r\n\
         END\r\n\
         101\r\n\
         VALUE n 0 3\r\n\
         101\r\n\
         END\r\n\
         VALUE n 0 3\r\n\
         102\r\n\
         END\r\n\
         0\r\n\
         VALUE n 0 3\r\n\
         0  \r\n\
         END\r\n",
    ),
    (
        "set n 0 0 20\r\n\
         18446744073709551615\r\n\
         incr n 1\r\n\
         get n\r\n\
         decr n 1\r\n\
         incr n 18446744073709551615\r\n\
         incr n 2\r\n\
         get n\r\n",
        "STORED\r\n\
         0\r\n\
         VALUE n 0 20\r\n\
         0                   \r\n\
         END\r\n\
         0\r\n\
         18446744073709551615\r\n\
         1\r\n\
         VALUE n 0 20\r\n\
         1                   \r\n\
         END\r\n",
    ),
    (
        "set n 0 0 1\r\n\
         x\r\n\
         incr n 1\r\n\
         set n 0 0 0\r\n\
         \r\n\
         incr n 1\r\n\
         set n 0 0 2\r\n\
         -1\r\n\
         incr n 1\r\n\
         set n 0 0 20\r\n\
         99999999999999999999\r\n\
         incr n 1\r\n\
         set n 0 0 6\r\n\
         12 abc\r\n\
         incr n 1\r\n\
         get n\r\n\
         set n 0 0 3\r\n\
         \x20+1\r\n\
         incr n 1\r\n\
         get n\r\n\
         set n 0 0 3\r\n\
         1x2\r\n\
         incr n 1\r\n",
        "STORED\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         STORED\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         STORED\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         STORED\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         STORED\r\n\
         13\r\n\
         VALUE n 0 6\r\n\
         13    \r\n\
         END\r\n\
         STORED\r\n\
         2\r\n\
         VALUE n 0 3\r\n\
         2  \r\n\
         END\r\n\
         STORED\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    (
        "incr a 1\r\n\
         decr a 1\r\n\
         incr a x\r\n\
         incr a -1\r\n\
         incr a 18446744073709551616\r\n\
         incr a\r\n\
         incr a 1 2 3\r\n\
         incr a noreply\r\n",
        "NOT_FOUND\r\n\
         NOT_FOUND\r\n\
         CLIENT_ERROR invalid numeric delta argument\r\n\
         CLIENT_ERROR invalid numeric delta argument\r\n\
         CLIENT_ERROR invalid numeric delta argument\r\n\
         ERROR\r\n\
         ERROR\r\n",
    ),
    (
        "delete a\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         delete a\r\n\
         get a\r\n\
         delete a 0\r\n\
         delete a 5\r\n\
         delete a noreply\r\n\
         delete a 0 noreply\r\n\
         delete a 1 noreply\r\n\
         delete a 0 x\r\n\
         delete\r\n\
         delete a b c d\r\n",
        "NOT_FOUND\r\n\
         STORED\r\n\
         DELETED\r\n\
         END\r\n\
         NOT_FOUND\r\n\
         CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n\
         CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n\
         ERROR\r\n\
         ERROR\r\n",
    ),
    (
        "touch a 1\r\n\
         set a 3 0 1\r\n\
         x\r\n\
         touch a 100\r\n\
         get a\r\n\
         touch a -1\r\n\
         get a\r\n\
         touch a x\r\n\
         touch a\r\n\
         touch a 1 noreply\r\n",
        "NOT_FOUND\r\n\
         STORED\r\n\
         TOUCHED\r\n\
         VALUE a 3 1\r\n\
         x\r\n\
         END\r\n\
         TOUCHED\r\n\
         END\r\n\
         CLIENT_ERROR invalid exptime argument\r\n\
         ERROR\r\n",
    ),
    (
        "set a 3 0 1\r\n\
         x\r\n\
         gat 100 a b\r\n\
         gats 100 a\r\n\
         gat x a\r\n\
         gat 1\r\n\
         gat\r\n\
         gat -1 a\r\n\
         get a\r\n",
        "STORED\r\n\
         VALUE a 3 1\r\n\
         x\r\n\
         END\r\n\
         VALUE a 3 1 1\r\n\
         x\r\n\
         END\r\n\
         CLIENT_ERROR invalid exptime argument\r\n\
         END\r\n\
         ERROR\r\n\
         VALUE a 3 1\r\n\
         x\r\n\
         END\r\n\
         END\r\n",
    ),
    (
        "set a 0 -1 1\r\n\
         x\r\n\
         get a\r\n\
         set a 0 1 1\r\n\
         x\r\n\
         get a\r\n\
         set a 0 2592001 1\r\n\
         x\r\n\
         get a\r\n\
         set a 0 2592000 1\r\n\
         x\r\n\
         get a\r\n\
         set a 0 2147483648 1\r\n\
         x\r\n\
         get a\r\n\
         set a 0 2000000000 1\r\n\
         x\r\n\
         get a\r\n\
         add b 0 -1 1\r\n\
         x\r\n\
         add b 0 0 1\r\n\
         y\r\n\
         get b\r\n",
        "STORED\r\n\
         END\r\n\
         STORED\r\n\
         VALUE a 0 1\r\n\
         x\r\n\
         END\r\n\
         STORED\r\n\
         END\r\n\
         STORED\r\n\
         VALUE a 0 1\r\n\
         x\r\n\
         END\r\n\
         STORED\r\n\
         END\r\n\
         STORED\r\n\
         VALUE a 0 1\r\n\
         x\r\n\
         END\r\n\
         STORED\r\n\
         STORED\r\n\
         VALUE b 0 1\r\n\
         y\r\n\
         END\r\n",
    ),
    (
        "set a 0 0 1\r\n\
         x\r\n\
         flush_all\r\n\
         get a\r\n\
         add a 0 0 1\r\n\
         y\r\n\
         flush_all 0\r\n\
         get a\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         flush_all noreply\r\n\
         get a\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         flush_all 0 noreply\r\n\
         get a\r\n\
         flush_all x\r\n\
         flush_all 1 2 3\r\n\
         flush_all -1\r\n",
        "STORED\r\n\
         OK\r\n\
         END\r\n\
         STORED\r\n\
         OK\r\n\
         END\r\n\
         STORED\r\n\
         END\r\n\
         STORED\r\n\
         END\r\n\
         CLIENT_ERROR invalid exptime argument\r\n\
         ERROR\r\n\
         OK\r\n",
    ),
    (
        "verbosity\r\n\
         verbosity 1\r\n\
         verbosity 0 noreply\r\n\
         verbosity x\r\n\
         verbosity noreply\r\n\
         verbosity 1 2 3\r\n",
        "ERROR\r\n\
         OK\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n",
    ),
    (
        "stats reset\r\n\
         stats foo\r\n\
         stats items\r\n\
         stats noreply\r\n\
         shutdown\r\n\
         nonsense\r\n\
         nonsense noreply\r\n",
        "RESET\r\n\
         ERROR\r\n\
         END\r\n\
         ERROR\r\n\
         ERROR: shutdown not enabled\r\n\
         ERROR\r\n\
         ERROR\r\n",
    ),
    (
        "set a 0 0 1\r\n\
         x\r\n\
         quit\r\n\
         get a\r\n",
        "STORED\r\n",
    ),
    (
        "quit now\r\n\
         get a\r\n",
        "",
    ),
    (
        "mg a v\r\n\
         mg a\r\n\
         mg a k Oq1\r\n\
         mg a q\r\n\
         mg a q k v\r\n\
         mn\r\n\
         ms a 5\r\n\
         hello\r\n\
         mg a\r\n\
         mg a v\r\n\
         mg a s v t f c k Oabc\r\n\
         mg a t s\r\n\
         mg b k O1 q\r\n\
         mn\r\n\
         mg a v q\r\n\
         mn now\r\n",
        "EN\r\n\
         EN\r\n\
         EN ka Oq1\r\n\
         MN\r\n\
         HD\r\n\
         HD\r\n\
         VA 5\r\n\
         hello\r\n\
         VA 5 s5 t-1 f0 c1 ka Oabc\r\n\
         hello\r\n\
         HD t-1 s5\r\n\
         MN\r\n\
         VA 5\r\n\
         hello\r\n\
         MN\r\n",
    ),
    (
        "ms a 1\r\n\
         x\r\n\
         ms a 1 q\r\n\
         y\r\n\
         mg a v\r\n\
         ms a 1 c k O1 F5\r\n\
         z\r\n\
         mg a f v c\r\n\
         ms a 2 T100\r\n\
         ab\r\n\
         mg a t v\r\n\
         ms a 1 T-1\r\n\
         x\r\n\
         mg a v\r\n\
         ms a 0\r\n\
         \r\n\
         mg a v s\r\n\
         ms a 1\r\n\
         xy\r\n\
         mn\r\n\
         ms a 1 q\r\n\
         xy\r\n\
         mn\r\n",
        "HD\r\n\
         VA 1\r\n\
         y\r\n\
         HD c3 ka O1\r\n\
         VA 1 f5 c3\r\n\
         z\r\n\
         HD\r\n\
         VA 2 t100\r\n\
         ab\r\n\
         HD\r\n\
         EN\r\n\
         HD\r\n\
         VA 0 s0\r\n\
         \r\n\
         CLIENT_ERROR bad data chunk\r\n\
         ERROR\r\n\
         MN\r\n\
         CLIENT_ERROR bad data chunk\r\n\
         ERROR\r\n\
         MN\r\n",
    ),
    (
        "ms a 1 ME\r\n\
         1\r\n\
         ms a 1 ME q\r\n\
         2\r\n\
         ms b 1 MR\r\n\
         1\r\n\
         ms a 1 MR F7\r\n\
         3\r\n\
         ms a 2 MA F9 T50\r\n\
         45\r\n\
         ms a 2 MP\r\n\
         12\r\n\
         ms b 1 MA k O1\r\n\
         x\r\n\
         ms b 1 MP q\r\n\
         x\r\n\
         mg a v f t\r\n\
         ms a 1 MS\r\n\
         z\r\n\
         mg a v f\r\n\
         ms a 1 MX\r\n\
         y\r\n\
         ms a 1 Mset\r\n\
         y\r\n\
         ms a 1 M\r\n\
         y\r\n",
        "HD\r\n\
         NS\r\n\
         NS\r\n\
         HD\r\n\
         HD\r\n\
         HD\r\n\
         NS kb O1\r\n\
         NS\r\n\
         VA 5 f7 t-1\r\n\
         12345\r\n\
         HD\r\n\
         VA 1 f0\r\n\
         z\r\n\
         CLIENT_ERROR invalid mode for ms M token\r\n\
         CLIENT_ERROR incorrect length for M token\r\n\
         CLIENT_ERROR incorrect length for M token\r\n",
    ),
    (
        "ms a 1\r\n\
         x\r\n\
         mg a c\r\n\
         ms a 1 C1\r\n\
         y\r\n\
         ms a 1 C1\r\n\
         z\r\n\
         ms a 1 C1 q k c O5\r\n\
         z\r\n\
         mg a c v\r\n\
         ms b 1 C5 k\r\n\
         x\r\n\
         ms a 1 C0\r\n\
         z\r\n\
         ms b 1 C0 q\r\n\
         z\r\n\
         ms a 1 C2 MR c\r\n\
         w\r\n\
         ms a 1 MA C1\r\n\
         +\r\n\
         ms a 1 MA C3 c\r\n\
         +\r\n\
         ms a 1 MP C0 c\r\n\
         -\r\n\
         ms a 1 ME C99\r\n\
         x\r\n\
         mg a v c\r\n",
        "HD\r\n\
         HD c1\r\n\
         HD\r\n\
         EX\r\n\
         EX ka c0 O5\r\n\
         VA 1 c2\r\n\
         y\r\n\
         NF kb\r\n\
         EX\r\n\
         NF\r\n\
         HD c3\r\n\
         EX\r\n\
         HD c4\r\n\
         HD c5\r\n\
         NS\r\n\
         VA 3 c5\r\n\
         -w+\r\n",
    ),
    (
        "ms a 1\r\n\
         x\r\n\
         ms a 1\r\n\
         y\r\n\
         ms a 3 C1 I T100\r\n\
         old\r\n\
         mg a v c t f\r\n\
         mg a v\r\n\
         ms a 3 C1 I q\r\n\
         ol2\r\n\
         mg a v c\r\n\
         ms a 3 C9 I\r\n\
         new\r\n\
         md a I\r\n\
         ms a 1 C1 I\r\n\
         z\r\n\
         mg a v\r\n\
         ms a 1\r\n\
         n\r\n\
         mg a v\r\n",
        "HD\r\n\
         HD\r\n\
         HD\r\n\
         VA 3 c3 t-1 f0 X W\r\n\
         old\r\n\
         VA 3 Z X\r\n\
         old\r\n\
         VA 3 c4 Z X\r\n\
         ol2\r\n\
         EX\r\n\
         HD\r\n\
         HD\r\n\
         VA 1 X W\r\n\
         z\r\n\
         HD\r\n\
         VA 1\r\n\
         n\r\n",
    ),
    (
        "ms a 1 F3\r\n\
         x\r\n\
         md a I T30\r\n\
         mg a v c t f\r\n\
         mg a v k\r\n\
         mg a s\r\n\
         md a I q\r\n\
         md a I k O1\r\n\
         mg a v u\r\n\
         mg a v u\r\n\
         md a\r\n\
         mg a\r\n\
         md a\r\n\
         md a q\r\n\
         md a k O2 q\r\n\
         ms a 1\r\n\
         x\r\n\
         md a q\r\n\
         md a q k O1\r\n\
         mn\r\n\
         ms a 1\r\n\
         x\r\n\
         md a C99 k\r\n\
         md a C8 q\r\n\
         mg a c v\r\n",
        "HD\r\n\
         HD\r\n\
         VA 1 c2 t30 f3 X W\r\n\
         x\r\n\
         VA 1 ka Z X\r\n\
         x\r\n\
         HD s1 Z X\r\n\
         HD ka O1\r\n\
         VA 1 X W\r\n\
         x\r\n\
         VA 1 Z X\r\n\
         x\r\n\
         HD\r\n\
         EN\r\n\
         NF\r\n\
         NF\r\n\
         NF ka O2\r\n\
         HD\r\n\
         NF ka O1\r\n\
         MN\r\n\
         HD\r\n\
         EX ka\r\n\
         EX\r\n\
         VA 1 c6\r\n\
         x\r\n",
    ),
    (
        "mg a N30\r\n\
         mg a N30 t v c k O7\r\n\
         mg a\r\n\
         mg a v\r\n\
         mg b N0 t v s\r\n\
         mg b t\r\n\
         ms a 1 T100\r\n\
         x\r\n\
         mg a R30 t\r\n\
         mg a R120 t\r\n\
         mg a R120 t\r\n\
         mg a R0\r\n\
         ms a 1\r\n\
         y\r\n\
         mg a R9999\r\n\
         mg c N10 R30 T50 t\r\n\
         mg c t\r\n\
         mg d N10 q v\r\n\
         mg d N10 q v\r\n\
         mg e R10\r\n\
         mg e T10 q\r\n\
         mn\r\n",
        "HD W\r\n\
         VA 0 t30 c1 ka O7 Z\r\n\
         \r\n\
         HD Z\r\n\
         VA 0 Z\r\n\
         \r\n\
         VA 0 t-1 s0 W\r\n\
         \r\n\
         HD t-1 Z\r\n\
         HD\r\n\
         HD t100\r\n\
         HD t100 W\r\n\
         HD t100 Z\r\n\
         HD Z\r\n\
         HD\r\n\
         HD\r\n\
         HD t50 W\r\n\
         HD t50 Z\r\n\
         VA 0 W\r\n\
         \r\n\
         VA 0 Z\r\n\
         \r\n\
         EN\r\n\
         MN\r\n",
    ),
    (
        "set a 0 0 1\r\n\
         x\r\n\
         mg a h\r\n\
         mg a h\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         mg a h u\r\n\
         mg a h u\r\n\
         get a\r\n\
         mg a h\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         gat 0 a\r\n\
         mg a h l\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         touch a 0\r\n\
         mg a h u\r\n\
         append a 0 0 1\r\n\
         y\r\n\
         mg a h u l v\r\n\
         get a\r\n\
         append a 0 0 1\r\n\
         z\r\n\
         mg a h u\r\n\
         ms a 1\r\n\
         9\r\n\
         mg a v\r\n\
         mg a h u\r\n\
         incr a 5\r\n\
         mg a h v u\r\n\
         get a\r\n\
         mg a h u\r\n\
         decr a 1\r\n\
         mg a h v u\r\n",
        "STORED\r\n\
         HD h0\r\n\
         HD h1\r\n\
         STORED\r\n\
         HD h0\r\n\
         HD h0\r\n\
         VALUE a 0 1\r\n\
         x\r\n\
         END\r\n\
         HD h1\r\n\
         STORED\r\n\
         VALUE a 0 1\r\n\
         x\r\n\
         END\r\n\
         HD h1 l0\r\n\
         STORED\r\n\
         TOUCHED\r\n\
         HD h1\r\n\
         STORED\r\n\
         VA 2 h0 l0\r\n\
         xy\r\n\
         VALUE a 0 2\r\n\
         xy\r\n\
         END\r\n\
         STORED\r\n\
         HD h0\r\n\
         HD\r\n\
         VA 1\r\n\
         9\r\n\
         HD h1\r\n\
         14\r\n\
         VA 2 h0\r\n\
         14\r\n\
         VALUE a 0 2\r\n\
         14\r\n\
         END\r\n\
         HD h1\r\n\
         13\r\n\
         VA 2 h1\r\n\
         13\r\n",
    ),
    (
        "mg a T100\r\n\
         set a 0 0 1\r\n\
         x\r\n\
         mg a T100 t\r\n\
         mg a t T50\r\n\
         mg a T0 t\r\n\
         mg a T-1\r\n\
         mg a\r\n\
         set a 0 100 1\r\n\
         x\r\n\
         mg a t v T200 t\r\n",
        "EN\r\n\
         STORED\r\n\
         HD t100\r\n\
         HD t100\r\n\
         HD t-1\r\n\
         HD\r\n\
         EN\r\n\
         STORED\r\n\
         CLIENT_ERROR duplicate flag\r\n",
    ),
    (
        "mg Zm9v b v\r\n\
         ms Zm9v 3 b\r\n\
         bar\r\n\
         get foo\r\n\
         mg Zm9v b v k\r\n\
         mg foo v k\r\n\
         mg Zm9 b\r\n\
         mg ==== b\r\n\
         ms Zm9 3 b\r\n\
         bar\r\n\
         ms Zm9v 1 b k c\r\n\
         x\r\n\
         md Zm9v b k O1\r\n\
         md Zm9v b k\r\n\
         ma Zm9v b N0 k\r\n\
         ma Zm9v b k v\r\n\
         get foo\r\n\
         mg YQ== b k\r\n\
         mg Z+m$ b k\r\n\
         ms YWIK 2 b\r\n\
         ab\r\n\
         mg YWIK b v k\r\n",
        "EN\r\n\
         HD\r\n\
         VALUE foo 0 3\r\n\
         bar\r\n\
         END\r\n\
         VA 3 kZm9v b\r\n\
         bar\r\n\
         VA 3 kZm9v b\r\n\
         bar\r\n\
         CLIENT_ERROR error decoding key\r\n\
         CLIENT_ERROR error decoding key\r\n\
         CLIENT_ERROR error decoding key\r\n\
         HD kZm9v b c2\r\n\
         HD kZm9v b O1\r\n\
         NF kZm9v b\r\n\
         HD kZm9v b\r\n\
         VA 1 kZm9v b\r\n\
         1\r\n\
         VALUE foo 0 1\r\n\
         1\r\n\
         END\r\n\
         EN kYQ== b\r\n\
         CLIENT_ERROR error decoding key\r\n\
         HD\r\n\
         VA 2 kYWIK b\r\n\
         ab\r\n",
    ),
    (
        "ma n\r\n\
         ma n N0\r\n\
         ma n\r\n\
         ma n v\r\n\
         ma n v D10\r\n\
         ma n v MD\r\n\
         ma n v M- D5\r\n\
         ma n v M+\r\n\
         ma n v MI\r\n\
         ma n v Minc\r\n\
         ma n v MX\r\n\
         ma m N0 J13 v t\r\n\
         ma m N0 J13 v t c k O1\r\n\
         ma m q\r\n\
         ma m q v\r\n\
         ma m T100 t v\r\n\
         ma m t T50 v\r\n\
         ma o N60 t v\r\n\
         ma o t\r\n\
         mg m t v\r\n\
         ma p q k O3\r\n\
         ma p N0 q\r\n\
         ma p N0 q\r\n\
         mn\r\n\
         ma m C99\r\n\
         ma m C99 q k O1\r\n\
         ma m C8 v\r\n\
         ma m C0 v\r\n",
        "NF\r\n\
         HD\r\n\
         HD\r\n\
         VA 1\r\n\
         2\r\n\
         VA 2\r\n\
         12\r\n\
         VA 2\r\n\
         11\r\n\
         VA 1\r\n\
         6\r\n\
         VA 1\r\n\
         7\r\n\
         VA 1\r\n\
         8\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid mode for ma M token\r\n\
         VA 2 t-1\r\n\
         13\r\n\
         VA 2 t-1 c10 km O1\r\n\
         14\r\n\
         VA 2 t100\r\n\
         17\r\n\
         VA 2 t100\r\n\
         18\r\n\
         VA 1 t60\r\n\
         0\r\n\
         HD t60\r\n\
         VA 2 t50\r\n\
         18\r\n\
         NF kp O3\r\n\
         HD\r\n\
         MN\r\n\
         EX\r\n\
         EX km O1\r\n\
         EX\r\n\
         VA 2\r\n\
         19\r\n",
    ),
    (
        "ms n 1\r\n\
         x\r\n\
         ma n\r\n\
         ma n q\r\n\
         ms n 0\r\n\
         \r\n\
         ma n\r\n\
         ma n C5\r\n\
         ms n 2\r\n\
         99\r\n\
         ma n v\r\n\
         get n\r\n\
         ma n MD D5 v\r\n\
         get n\r\n\
         ms n 20\r\n\
         18446744073709551615\r\n\
         ma n v\r\n\
         ma n MD v\r\n\
         ma n J D\r\n\
         ma n Dx\r\n\
         ma n J-1 N0\r\n\
         ma n D18446744073709551616\r\n\
         ma k N0 J18446744073709551615 v\r\n\
         ma k v\r\n",
        "HD\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         HD\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\r\n\
         HD\r\n\
         VA 3\r\n\
         100\r\n\
         VALUE n 0 3\r\n\
         100\r\n\
         END\r\n\
         VA 2\r\n\
         95\r\n\
         VALUE n 0 3\r\n\
         95 \r\n\
         END\r\n\
         HD\r\n\
         VA 1\r\n\
         0\r\n\
         VA 1\r\n\
         0\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         VA 20\r\n\
         18446744073709551615\r\n\
         VA 1\r\n\
         0\r\n",
    ),
    (
        "mg a v v\r\n\
         mg a vv\r\n\
         mg a ~\r\n\
         mg a k k\r\n\
         md a q q\r\n\
         ma a v v\r\n\
         ms a 1 c c\r\n\
         x\r\n\
         mg a Z\r\n\
         mg a !\r\n\
         md a Z\r\n\
         ma a Z\r\n\
         ms a 1 Z\r\n\
         x\r\n\
         mg a T\r\n\
         mg a Tx\r\n\
         mg a Nx\r\n\
         mg a R\r\n\
         mg a Cx\r\n\
         ms a 1 Tx\r\n\
         y\r\n\
         ms a 1 Fx\r\n\
         y\r\n\
         ms a 1 F-1\r\n\
         y\r\n\
         ms a 1 Tx Z\r\n\
         y\r\n\
         ms a 1 Tx Jx\r\n\
         y\r\n\
         ms a 1 Fx Tx\r\n\
         y\r\n\
         ms a 1 Tx Fx\r\n\
         y\r\n\
         md a Tx\r\n\
         md a Cx\r\n\
         ma a Tx\r\n\
         ms a x\r\n\
         ms a -1\r\n\
         ms a\r\n\
         ms a 2147483646\r\n\
         ms a 2147483647\r\n\
         mn\r\n",
        "CLIENT_ERROR duplicate flag\r\n\
         EN\r\n\
         CLIENT_ERROR invalid flag\r\n\
         CLIENT_ERROR duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR duplicate flag\r\n\
         CLIENT_ERROR invalid flag\r\n\
         CLIENT_ERROR invalid flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid flag\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR invalid flag\r\n\
         CLIENT_ERROR invalid numeric initial value\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR bad token in command line format\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR invalid or duplicate flag\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         MN\r\n",
    ),
    (
        "mg a O12345678901234567890123456789012\r\n\
         mg a O1234567890123456789012345678901\r\n\
         mg a O\r\n\
         ms a 1 O12345678901234567890123456789012\r\n\
         x\r\n\
         ms a 1 O1234567890123456789012345678901\r\n\
         x\r\n\
         mg a O12345678901234567890123456789012\r\n\
         md a O12345678901234567890123456789012\r\n\
         mg a v\r\n\
         ma b N0 O12345678901234567890123456789012\r\n\
         mg b v\r\n\
         ma b O12345678901234567890123456789012\r\n\
         mg b v\r\n\
         ma c O12345678901234567890123456789012\r\n\
         mg c q O12345678901234567890123456789012\r\n\
         mg d N0 O12345678901234567890123456789012\r\n\
         mg d v\r\n\
         mg d T100 O12345678901234567890123456789012\r\n\
         mg d t\r\n",
        "CLIENT_ERROR opaque token too long\r\n\
         EN O1234567890123456789012345678901\r\n\
         EN O\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         HD O1234567890123456789012345678901\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         VA 1\r\n\
         x\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         VA 1\r\n\
         0\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         VA 1\r\n\
         1\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         CLIENT_ERROR opaque token too long\r\n\
         VA 0\r\n\
         \r\n\
         CLIENT_ERROR opaque token too long\r\n\
         HD t100\r\n",
    ),
    (
        "mg kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         mg kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk v\r\n\
         ms kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 1\r\n\
         ms kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk 1\r\n\
         x\r\n\
         mg kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk v k\r\n\
         md kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         md kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk Z\r\n\
         ma kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         me kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         mg a b c d e f g h i j k l m n o p q r s t u\r\n\
         md a b c d e f g h i j k l m n o p q r s t\r\n\
         ma a b c d e f g h i j k l m n o p q r s t\r\n\
         ms a 1 b c d e f g h i j k l m n o p q r s t\r\n\
         mg a b c f h k l O P L q s t u v T1 N1\r\n\
         mg a c f h k l O P L q s t u v T1 N1\r\n\
         mg a c f h k l O P L q s t u v T1 N1 R1\r\n\
         mn\r\n",
        "CLIENT_ERROR bad command line format\r\n\
         EN\r\n\
         CLIENT_ERROR bad command line format\r\n\
         HD\r\n\
         VA 1 kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\r\n\
         x\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR options flags are too long\r\n\
         CLIENT_ERROR options flags too long\r\n\
         CLIENT_ERROR options flags too long\r\n\
         CLIENT_ERROR options flags too long\r\n\
         CLIENT_ERROR error decoding key\r\n\
         VA 0 c2 f0 h0 ka l0 O s0 t-1 W\r\n\
         \r\n\
         VA 0 c2 f0 h0 ka l0 O s0 t1 Z\r\n\
         \r\n\
         MN\r\n",
    ),
    (
        "mg\r\n\
         ms\r\n\
         md\r\n\
         ma\r\n\
         me\r\n\
         mn\r\n\
         mx\r\n\
         m\r\n\
         mgg a\r\n\
         me a\r\n\
         me a b\r\n\
         MG a\r\n\
         ms a\r\n\
         mn x y\r\n\
         \x20 mg   a   v  \r\n\
         mg a\tv\r\n\
         mga\r\n",
        "ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         CLIENT_ERROR bad command line format\r\n\
         MN\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         EN\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n\
         CLIENT_ERROR bad command line format\r\n\
         MN\r\n\
         EN\r\n\
         EN\r\n\
         ERROR\r\n",
    ),
    (
        "set a 5 0 3\r\n\
         abc\r\n\
         mg a v f s c\r\n\
         mg a P1 L2 v\r\n\
         get a\r\n\
         gets a\r\n\
         md a\r\n\
         get a\r\n\
         ms a 1 F9\r\n\
         x\r\n\
         get a\r\n\
         cas a 1 0 1 3\r\n\
         y\r\n\
         mg a c f\r\n\
         append a 0 0 1\r\n\
         z\r\n\
         mg a c v\r\n\
         flush_all\r\n\
         mg a\r\n\
         ms a 1\r\n\
         x\r\n\
         mg a c\r\n",
        "STORED\r\n\
         VA 3 f5 s3 c1\r\n\
         abc\r\n\
         VA 3\r\n\
         abc\r\n\
         VALUE a 5 3\r\n\
         abc\r\n\
         END\r\n\
         VALUE a 5 3 1\r\n\
         abc\r\n\
         END\r\n\
         HD\r\n\
         END\r\n\
         HD\r\n\
         VALUE a 9 1\r\n\
         x\r\n\
         END\r\n\
         EXISTS\r\n\
         HD c2 f9\r\n\
         STORED\r\n\
         VA 2 c3\r\n\
         xz\r\n\
         OK\r\n\
         EN\r\n\
         HD\r\n\
         HD c5\r\n",
    ),
    (
        "slabs\r\n\
         slabs reassign\r\n\
         slabs reassign 1 2\r\n\
         slabs reassign 1 2 noreply\r\n\
         slabs automove\r\n\
         slabs automove 0\r\n\
         slabs automove 3\r\n\
         slabs automove x\r\n\
         slabs automove 1 noreply\r\n\
         slabs automove 3 noreply\r\n\
         slabs automove ratio 0.5\r\n\
         slabs automove ratio x\r\n\
         slabs automove ratio\r\n\
         lru\r\n\
         lru x\r\n\
         lru tune 10 25 0.1 2.0\r\n\
         lru tune 50 50 0.1 2.0\r\n\
         lru tune 10 25 0 2.0\r\n\
         lru tune 10 25 x 2.0\r\n\
         lru tune 10 25 0.1 2.0 noreply\r\n\
         lru mode flat\r\n\
         lru temp_ttl 10\r\n\
         lru_crawler\r\n\
         lru_crawler disable\r\n\
         lru_crawler crawl all\r\n\
         lru_crawler metadump all\r\n\
         lru_crawler tocrawl 5\r\n\
         lru_crawler tocrawl x\r\n\
         lru_crawler sleep 5\r\n\
         lru_crawler sleep 5000000\r\n\
         lru_crawler sleep x\r\n\
         lru_crawler foo\r\n\
         lru_crawler crawl 1 2\r\n",
        "ERROR\r\n\
         ERROR\r\n\
         CLIENT_ERROR slab reassignment disabled\r\n\
         ERROR\r\n\
         ERROR\r\n\
         OK\r\n\
         ERROR\r\n\
         CLIENT_ERROR bad command line format\r\n\
         OK\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         OK\r\n\
         ERROR hot and warm pcts must not exceed 80\r\n\
         ERROR hot/warm age factors must be greater than 0\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         OK\r\n\
         CLIENT_ERROR lru crawler disabled\r\n\
         CLIENT_ERROR lru crawler disabled\r\n\
         OK\r\n\
         CLIENT_ERROR bad command line format\r\n\
         OK\r\n\
         CLIENT_ERROR sleep must be one second or less\r\n\
         CLIENT_ERROR bad command line format\r\n\
         ERROR\r\n\
         ERROR\r\n",
    ),
    (
        "watch\r\n\
         watch fetchers\r\n\
         watch noreply\r\n\
         cache_memlimit\r\n\
         cache_memlimit 5\r\n\
         cache_memlimit 64\r\n\
         cache_memlimit 64 noreply\r\n\
         cache_memlimit x\r\n\
         cache_memlimit x noreply\r\n\
         cache_memlimit 2000000000\r\n\
         cache_memlimit 1 2 3\r\n\
         misbehave\r\n\
         debugtime p\r\n\
         shutdown graceful\r\n",
        "CLIENT_ERROR watch commands not allowed\r\n\
         CLIENT_ERROR watch commands not allowed\r\n\
         ERROR\r\n\
         MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n\
         OK\r\n\
         ERROR\r\n\
         MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR\r\n\
         ERROR: shutdown not enabled\r\n",
    ),
    (
        "stats items\r\n\
         stats slabs\r\n\
         stats sizes\r\n\
         stats sizes_disable\r\n\
         stats extstore\r\n\
         stats proxy\r\n\
         stats detail\r\n\
         stats detail dump\r\n\
         stats detail off\r\n\
         stats detail x\r\n\
         stats cachedump\r\n\
         stats cachedump 1\r\n\
         stats cachedump 1 1\r\n\
         stats cachedump 1 x\r\n\
         stats cachedump x 1\r\n\
         stats cachedump 64 1\r\n\
         stats cachedump 63 1\r\n\
         stats cachedump 0 0\r\n\
         stats reset x\r\n",
        "END\r\n\
         STAT active_slabs 0\r\n\
         STAT total_malloced 0\r\n\
         END\r\n\
         STAT sizes_status disabled\r\n\
         END\r\n\
         STAT sizes_status disabled\r\n\
         END\r\n\
         ERROR\r\n\
         CLIENT_ERROR usage: stats detail on|off|dump\r\n\
         END\r\n\
         OK\r\n\
         CLIENT_ERROR usage: stats detail on|off|dump\r\n\
         CLIENT_ERROR bad command line\r\n\
         CLIENT_ERROR bad command line\r\n\
         END\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR bad command line format\r\n\
         CLIENT_ERROR Illegal slab id\r\n\
         END\r\n\
         END\r\n\
         RESET\r\n",
    ),
    (
        "set a 0 0 5\r\n\
         hello\r\n\
         stats cachedump 1 0\r\n\
         stats cachedump 1 1 x\r\n\
         stats cachedump 2 0\r\n\
         delete a\r\n\
         stats cachedump 1 0\r\n",
        "STORED\r\n\
         ITEM a [5 b; 0 s]\r\n\
         END\r\n\
         ITEM a [5 b; 0 s]\r\n\
         END\r\n\
         END\r\n\
         DELETED\r\n\
         END\r\n",
    ),
    (
        "mx HTTP/1.1\r\n\
         get HTTP/1.1\r\n\
         set HTTP/1.1\r\n\
         GET / HTTP/1.1 x\r\n\
         delete HTTP/1.1\r\n\
         GET / HTTP/1.1\r\n",
        "ERROR\r\n\
         END\r\n\
         ERROR\r\n\
         ERROR\r\n\
         NOT_FOUND\r\n",
    ),
    (
        "HTTP/1.1\r\n\
         get a\r\n",
        "",
    ),
];
