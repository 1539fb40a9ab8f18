//! What memcached 1.6.18 says: each conversation was had with one just started (`memcached -U 0`), on one connection.

/// What is sent, and all that comes back.
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
];
