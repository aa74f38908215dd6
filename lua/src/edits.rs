//! Our corrections of Lua 5.1.5. Each names a piece of text that stands in its file exactly once, and says what stands there afterwards.

/// A correction.
pub(crate) struct Edit {
    /// Its file.
    pub file: &'static str,
    /// Why.
    pub why: &'static str,
    /// What is looked for.
    pub find: &'static str,
    /// What replaces it.
    pub put: &'static str,
}

const fn edit(file: &'static str, why: &'static str, find: &'static str, put: &'static str) -> Edit {
    Edit { file, why, find, put }
}

const UNPACK: &str = "CVE-2025-46817: the number of results overflowed, and unpack wrote past the stack";
const NAME: &str = "CVE-2025-49844: nothing held the chunk's name while it was parsed";
const BRACKET: &str = "CVE-2025-46819: a long bracket's level overflowed";
const BINARY: &str = "compiled code is not checked, and can do anything to the machine: only text is compiled";
const STACK: &str = "an error without a handler ends the process: room on the stack is asked for under one";
const WHOLE: &str = "what does not fit into a whole number must be the same on every processor";
const HEADER: &str = "the declarations of dictum.h are known everywhere";
const KEY: &str = "strings are found by a keyed hash of all their bytes, and stand in tables by another one";
const ID: &str = "keys that are no strings or numbers are placed by when they were made, not by their address";
const STEPS: &str = "searching a chain of a table counts";
const SIZES: &str = "rebuilding a table counts";
const BYTES: &str = "copying and comparing strings counts";
const VALUES: &str = "copying arguments and results counts";
const LOOPS: &str = "a loop of a library function or of an operator counts";
const PARSER: &str = "what the parser searches counts";
const HOOK: &str = "the hook is told of work, not of instructions alone";

/// All of them, in the order in which they are made.
pub(crate) const EDITS: &[Edit] = &[
    edit("luaconf.h", HEADER, "#include <limits.h>\n", "#include <limits.h>\n#include \"dictum.h\"\n"),
    edit("luaconf.h", WHOLE, "((i)=(int)(d))", "((i)=dictum_toint(d))"),
    edit("luaconf.h", WHOLE, "((i)=(lua_Integer)(d))", "((i)=(lua_Integer)dictum_towide(d))"),
    edit("lstrlib.c", WHOLE, "form, (int)luaL_checknumber", "form, dictum_toint(luaL_checknumber"),
    edit("lstrlib.c", WHOLE, "dictum_toint(luaL_checknumber(L, arg));", "dictum_toint(luaL_checknumber(L, arg)));"),
    edit(
        "lstrlib.c",
        WHOLE,
        "(LUA_INTFRM_T)luaL_checknumber(L, arg));",
        "(LUA_INTFRM_T)dictum_towide(luaL_checknumber(L, arg)));",
    ),
    edit(
        "lstrlib.c",
        WHOLE,
        "(unsigned LUA_INTFRM_T)luaL_checknumber(L, arg));",
        "(unsigned LUA_INTFRM_T)dictum_tounsigned(luaL_checknumber(L, arg)));",
    ),
    // What corrupted memory.
    edit("lbaselib.c", UNPACK, "  n = e - i + 1;  /* number of elements */\n", ""),
    edit(
        "lbaselib.c",
        UNPACK,
        "if (n <= 0 || !lua_checkstack(L, n))  /* n <= 0 means arith. overflow */",
        "if ((unsigned int)e - (unsigned int)i >= 0x7fffffffu || !lua_checkstack(L, n = e - i + 1))",
    ),
    edit(
        "lparser.c",
        NAME,
        "luaX_setinput(L, &lexstate, z, luaS_new(L, name));",
        "setsvalue2s(L, L->top, luaS_new(L, name));\n  incr_top(L);\n  luaX_setinput(L, &lexstate, z, rawtsvalue(L->top - 1));",
    ),
    edit(
        "lparser.c",
        NAME,
        "lua_assert(lexstate.fs == NULL);\n  return funcstate.f;",
        "L->top--;\n  return funcstate.f;",
    ),
    edit(
        "llex.c",
        BRACKET,
        "    save_and_next(ls);\n    count++;\n",
        "    save_and_next(ls);\n    if (++count >= MAX_INT / 8) luaX_lexerror(ls, \"long bracket too long\", 0);\n",
    ),
    edit("ldo.c", BINARY, "((c == LUA_SIGNATURE[0]) ? luaU_undump : luaY_parser)", "((void)c, luaY_parser)"),
    edit(
        "lapi.c",
        STACK,
        "    luaD_checkstack(L, size);\n    if (L->ci->top < L->top + size)",
        "    if (L->stack_last - L->top <= size) res = luaD_rawrunprotected(L, dictum_reserve, &size) == 0;\n    if (res && L->ci->top < L->top + size)",
    ),
    // Strings.
    edit(
        "lobject.h",
        KEY,
        "    unsigned int hash;\n    size_t len;\n  } tsv;",
        "    unsigned int hash;\n    unsigned int len;\n    unsigned int key;\n  } tsv;",
    ),
    edit(
        "lstate.h",
        KEY,
        "/* array with tag-method names */\n",
        "\n  uint64_t dictum_keys[2];  /* the secret of this machine */\n  lu_byte dictum_old;  /* it goes by old rules */\n",
    ),
    edit(
        "lstate.c",
        KEY,
        "  preinit_state(L, g);\n",
        "  dictum_newstate(g->dictum_keys);\n  g->dictum_old = 0;\n  preinit_state(L, g);\n",
    ),
    edit("lstring.c", KEY, "unsigned int h = gco2ts(p)->hash;", "unsigned int h = gco2ts(p)->key;"),
    edit("lstring.c", KEY, "(l+1 > (MAX_SIZET - sizeof(TString))/sizeof(char))", "(l >= 0x7fffff00)"),
    edit("lstring.c", KEY, "ts->tsv.len = l;", "ts->tsv.len = cast(unsigned int, l);"),
    edit(
        "lstring.c",
        KEY,
        "ts->tsv.hash = h;",
        "ts->tsv.key = h;\n  ts->tsv.hash = dictum_hash(G(L)->dictum_old, str, l);",
    ),
    edit("lstring.c", KEY, "cast(unsigned int, l);  /* seed */", "dictum_key(G(L)->dictum_keys, str, l);"),
    // The loop that mixes bytes in has nothing left to do.
    edit("lstring.c", KEY, "size_t step = (l>>5)+1;", "size_t step = l + 1;"),
    edit("lstring.c", KEY, "if (ts->tsv.len == l &&", "if (ts->tsv.key == h && ts->tsv.len == l &&"),
    // Other keys.
    edit(
        "lobject.h",
        ID,
        "CommonHeader; lu_byte isC; lu_byte nupvalues;",
        "CommonHeader; lu_byte isC; lu_byte nupvalues; unsigned int id;",
    ),
    edit(
        "lobject.h",
        ID,
        "    CommonHeader;\n    struct Table *metatable;",
        "    CommonHeader;\n    unsigned int id;\n    struct Table *metatable;",
    ),
    edit("lobject.h", ID, "size of `node' array */\n", "size of `node' array */\n  unsigned int id;\n"),
    edit("lstate.h", ID, "  lu_byte status;\n", "  lu_byte status;\n  unsigned int id;\n"),
    edit(
        "lstate.c",
        ID,
        "  L->nCcalls = L->baseCcalls = 0;\n  L->status = 0;",
        "  L->nCcalls = L->baseCcalls = 0;\n  L->id = dictum_newid();\n  L->status = 0;",
    ),
    edit("lstring.c", ID, "u->uv.tt = LUA_TUSERDATA;", "u->uv.tt = LUA_TUSERDATA;\n  u->uv.id = dictum_newuserdata();"),
    edit("lfunc.c", ID, "c->c.isC = 1;", "c->c.isC = 1;\n  c->c.id = dictum_newid();"),
    edit("lfunc.c", ID, "c->l.isC = 0;", "c->l.isC = 0;\n  c->l.id = dictum_newid();"),
    edit(
        "ltable.c",
        ID,
        "luaC_link(L, obj2gco(t), LUA_TTABLE);",
        "luaC_link(L, obj2gco(t), LUA_TTABLE);\n  t->id = dictum_newid();",
    ),
    edit(
        "ltable.c",
        ID,
        "static Node *mainposition (const Table *t, const TValue *key) {",
        concat!(
            "static unsigned int dictum_id (const TValue *key) {\n",
            "  switch (ttype(key)) {\n",
            "    case LUA_TTABLE: return hvalue(key)->id;\n",
            "    case LUA_TFUNCTION: return clvalue(key)->c.id;\n",
            "    case LUA_TTHREAD: return thvalue(key)->id;\n",
            "    case LUA_TUSERDATA: return uvalue(key)->id;\n",
            "    default: return 0;\n",
            "  }\n",
            "}\n\n",
            "static Node *mainposition (const Table *t, const TValue *key) {",
        ),
    ),
    edit("ltable.c", ID, "return hashpointer(t, gcvalue(key));", "return hashmod(t, dictum_id(key));"),
    // Work on tables.
    // Each step of a traversal looks its key up anew, mostly past every cache.
    edit(
        "ltable.c",
        STEPS,
        "      /* key may be dead already, but it is ok to use it in `next' */",
        "      dictum_spendon(t, 6);",
    ),
    edit(
        "ltable.c",
        STEPS,
        "      else n = gnext(n);\n    } while (n);\n    luaG_runerror",
        "      else { n = gnext(n); dictum_spendon(t, 1); }\n    } while (n);\n    luaG_runerror",
    ),
    edit(
        "ltable.c",
        STEPS,
        "luai_numeq(nvalue(gkey(n)), nk))\n        return gval(n);  /* that's it */\n      else n = gnext(n);",
        "luai_numeq(nvalue(gkey(n)), nk))\n        return gval(n);  /* that's it */\n      else { n = gnext(n); dictum_spendon(t, 1); }",
    ),
    edit(
        "ltable.c",
        STEPS,
        "rawtsvalue(gkey(n)) == key)\n      return gval(n);  /* that's it */\n    else n = gnext(n);",
        "rawtsvalue(gkey(n)) == key)\n      return gval(n);  /* that's it */\n    else { n = gnext(n); dictum_spendon(t, 1); }",
    ),
    edit(
        "ltable.c",
        STEPS,
        "if (luaO_rawequalObj(key2tval(n), key))\n          return gval(n);  /* that's it */\n        else n = gnext(n);",
        "if (luaO_rawequalObj(key2tval(n), key))\n          return gval(n);  /* that's it */\n        else { n = gnext(n); dictum_spendon(t, 1); }",
    ),
    edit(
        "ltable.c",
        STEPS,
        "while (gnext(othern) != mp) othern = gnext(othern);",
        "while (gnext(othern) != mp) { othern = gnext(othern); dictum_spendon(t, 1); }",
    ),
    edit(
        "ltable.c",
        STEPS,
        "for (i++; i < t->sizearray; i++) {",
        "for (i++; i < t->sizearray; i++, dictum_spendon(t, 1)) {",
    ),
    edit(
        "ltable.c",
        STEPS,
        "for (i -= t->sizearray; i < sizenode(t); i++) {",
        "for (i -= t->sizearray; i < sizenode(t); i++, dictum_spendon(t, 1)) {",
    ),
    edit(
        "ltable.c",
        STEPS,
        "  i = 1;\n      while (!ttisnil(luaH_getnum(t, i))) i++;",
        "  i = 1;\n      while (!ttisnil(luaH_getnum(t, i))) { i++; dictum_spendon(t, 1); }",
    ),
    edit("ltable.c", STEPS, "    unsigned int i = 0;\n", "    unsigned int i = 0;\n    dictum_spendon(t, 2);\n"),
    edit(
        "ltable.c",
        STEPS,
        "  else return unbound_search(t, j);",
        "  dictum_spendon(t, 8);\n  return unbound_search(t, j);",
    ),
    edit(
        "ltable.c",
        SIZES,
        "  nasize = numusearray(t, nums);",
        "  dictum_spendon(t, sizenode(t) + (t->sizearray >> 3));\n  nasize = numusearray(t, nums);",
    ),
    edit(
        "ltable.c",
        SIZES,
        "  if (nasize > oldasize)  /* array part must grow? */",
        "  dictum_spendon(t, twoto(oldhsize) + nhsize + ((nasize + oldasize) >> 3));\n  if (nasize > oldasize)",
    ),
    // Work of the virtual machine.
    edit("lvm.c", HOOK, "(--L->hookcount == 0 ||", "(--L->hookcount == 0 || dictum_isdue() ||"),
    edit(
        "lvm.c",
        HOOK,
        "    luaD_callhook(L, LUA_HOOKCOUNT, -1);\n  }\n",
        "    luaD_callhook(L, LUA_HOOKCOUNT, -1);\n  }\n  dictum_check(L);\n",
    ),
    edit("lapi.c", HOOK, "to->nCcalls = from->nCcalls;", "to->nCcalls = from->nCcalls;\n  dictum_enter(from, to);"),
    edit(
        "lbaselib.c",
        HOOK,
        "status = lua_resume(co, narg);",
        "status = lua_resume(co, narg);\n  dictum_leave(L, co);",
    ),
    edit(
        "lvm.c",
        BYTES,
        "if (ttisstring(obj) && luaO_str2d(svalue(obj), &num)) {",
        "if (ttisstring(obj) && (dictum_spend(4 + (tsvalue(obj)->len >> 2)), luaO_str2d(svalue(obj), &num))) {",
    ),
    edit("lvm.c", BYTES, "    lua_number2str(s, n);", "    dictum_spend(12);\n    lua_number2str(s, n);"),
    // In the C locale, which is never left, strcoll goes by bytes; with many zeros in a string it was called for each.
    edit(
        "lvm.c",
        BYTES,
        "  size_t lr = rs->tsv.len;\n",
        concat!(
            "  size_t lr = rs->tsv.len;\n",
            "  size_t both = (ll < lr) ? ll : lr;\n",
            "  int order = memcmp(l, r, both);\n",
            "  dictum_spend(both >> 4);\n",
            "  if (order == 0) order = (ll > lr) - (ll < lr);\n",
            "  return order;\n",
        ),
    ),
    edit(
        "lvm.c",
        BYTES,
        "      buffer = luaZ_openspace(L, &G(L)->buff, tl);",
        "      dictum_spend(n + (tl >> 4));\n      buffer = luaZ_openspace(L, &G(L)->buff, tl);",
    ),
    edit("lvm.c", LOOPS, "    t = tm;  /* else repeat with `tm' */", "    t = tm;\n    dictum_spend(2);"),
    edit("lvm.c", LOOPS, "    setobj(L, &temp, tm);", "    dictum_spend(2);\n    setobj(L, &temp, tm);"),
    edit(
        "lvm.c",
        VALUES,
        "        for (j = 0; j < b; j++) {\n          if (j < n) {",
        "        dictum_spend(b >> 3);\n        for (j = 0; j < b; j++) {\n          if (j < n) {",
    ),
    edit(
        "ldo.c",
        VALUES,
        "  L->ci->savedpc = L->savedpc;\n  if (!cl->isC) {",
        "  L->ci->savedpc = L->savedpc;\n  dictum_spend((L->top - func) >> 3);\n  if (!cl->isC) {",
    ),
    edit("ldo.c", VALUES, "  /* move results to correct place */", "  dictum_spend((L->top - firstResult) >> 3);"),
    edit(
        "ldo.c",
        LOOPS,
        "void luaD_throw (lua_State *L, int errcode) {\n",
        "void luaD_throw (lua_State *L, int errcode) {\n  dictum_spend(20);\n",
    ),
    edit(
        "ldebug.c",
        LOOPS,
        "    level--;\n    if (f_isLua(ci))  /* Lua function? */",
        "    level--;\n    dictum_spend(1);\n    if (f_isLua(ci))",
    ),
    edit("lfunc.c", LOOPS, "    pp = &p->next;", "    pp = &p->next;\n    dictum_spend(1);"),
    // Libraries.
    edit(
        "lauxlib.c",
        BYTES,
        "    lua_pushlstring(B->L, B->buffer, l);",
        "    dictum_spend(l >> 4);\n    lua_pushlstring(B->L, B->buffer, l);",
    ),
    edit(
        "lstrlib.c",
        BYTES,
        "    lua_pushlstring(L, s+start-1, end-start+1);",
        "    (dictum_spend((end-start+1) >> 4), lua_pushlstring(L, s+start-1, end-start+1));",
    ),
    edit(
        "lstrlib.c",
        LOOPS,
        "      strfrmt = scanformat(L, strfrmt, form);",
        "      dictum_spend(12);\n      strfrmt = scanformat(L, strfrmt, form);",
    ),
    edit(
        "lbaselib.c",
        BYTES,
        "    n = strtoul(s1, &s2, base);",
        "    dictum_spend(lua_objlen(L, 1) >> 3);\n    n = strtoul(s1, &s2, base);",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "    lua_pushvalue(L, 2);  /* function */\n    lua_pushinteger(L, i);",
        "    dictum_spend(2);\n    dictum_check(L);\n    lua_pushvalue(L, 2);\n    lua_pushinteger(L, i);",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "    lua_pushvalue(L, 2);  /* function */\n    lua_pushvalue(L, -3);",
        "    dictum_spend(2);\n    dictum_check(L);\n    lua_pushvalue(L, 2);\n    lua_pushvalue(L, -3);",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "    lua_pop(L, 1);  /* remove value */",
        "    dictum_spend(1);\n    dictum_check(L);\n    lua_pop(L, 1);",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "for (i = e; i > pos; i--) {  /* move up elements */",
        "for (i = e; i > pos; i--) {\n        dictum_spend(2);\n        dictum_check(L);",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "for ( ;pos<e; pos++) {",
        "for ( ;pos<e; pos++) {\n    dictum_spend(2);\n    dictum_check(L);",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "static void addfield (lua_State *L, luaL_Buffer *b, int i) {\n",
        "static void addfield (lua_State *L, luaL_Buffer *b, int i) {\n  dictum_spend(1);\n  dictum_check(L);\n",
    ),
    edit(
        "ltablib.c",
        LOOPS,
        "static int sort_comp (lua_State *L, int a, int b) {\n",
        "static int sort_comp (lua_State *L, int a, int b) {\n  dictum_spend(3);\n  dictum_check(L);\n",
    ),
    // The parser.
    edit(
        "llex.c",
        PARSER,
        "  ls->lastline = ls->linenumber;\n",
        "  dictum_check(ls->L);\n  ls->lastline = ls->linenumber;\n",
    ),
    edit(
        "lparser.c",
        PARSER,
        "  for (i=fs->nactvar-1; i >= 0; i--) {\n    if (n == getlocvar(fs, i).varname)",
        "  dictum_spend(4 + (fs->nactvar >> 2));\n  for (i=fs->nactvar-1; i >= 0; i--) {\n    if (n == getlocvar(fs, i).varname)",
    ),
    edit(
        "lcode.c",
        PARSER,
        "  int offset = GETARG_sBx(fs->f->code[pc]);\n  if (offset == NO_JUMP)",
        "  int offset = GETARG_sBx(fs->f->code[pc]);\n  dictum_spend(1);\n  if (offset == NO_JUMP)",
    ),
    edit(
        "lbaselib.c",
        HEADER,
        "  luaL_register(L, LUA_COLIBNAME, co_funcs);",
        "  dictum_open(L);\n  luaL_register(L, LUA_COLIBNAME, co_funcs);",
    ),
];
