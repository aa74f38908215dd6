/*
** What Dictum adds to Lua: see dictum.h.
*/
#include <string.h>

#define LUA_CORE

#include "lua.h"
#include "lauxlib.h"
#include "ldebug.h"
#include "ldo.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "ltable.h"

#if defined(__linux__) || defined(__APPLE__)
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif
#define HAS_ENTROPY
#endif

/* Units for which the hook is called once. As many as instructions: see INSTRUCTIONS_AT_ONCE in data/src/script/vm.rs. */
#define SLICE 1000
/* Objects that a script makes are counted from here; those of the machine itself, below. */
#define FIRST_ID 0x1000000u

DICTUM_THREAD dictum_Meter dictum_meter = { 0, (size_t)-1, NULL, 0, 0 };

/* Tells the hook of all work that is due. It raises an error if that was too much. */
void dictum_pay (lua_State *L) {
  if (L->hook == NULL || !L->allowhook) return;
  while (dictum_isdue()) {
    dictum_meter.due -= dictum_meter.slice;
    luaD_callhook(L, LUA_HOOKCOUNT, -1);
  }
}

/* Instructions that are left until the hook is called go along into a coroutine and back: else each could begin with a slice for nothing. */
void dictum_enter (lua_State *from, lua_State *to) {
  if (!G(from)->dictum_old) to->hookcount = from->hookcount;
}

void dictum_leave (lua_State *from, lua_State *to) {
  if (!G(from)->dictum_old) from->hookcount = to->hookcount;
}

/* Makes room on the stack; under luaD_rawrunprotected. */
void dictum_reserve (lua_State *L, void *size) {
  luaD_growstack(L, *(int *)size);
}


/*
** Strings. Each has two hashes. `key` says where it is among all strings of the machine: nobody sees
** that, so it is computed with a secret, and nobody can make strings that collide. `hash` says where it
** is in tables, and so in which order `pairs` comes by: that must be the same on all replicas, so it is
** known, and searches in tables are counted.
*/

#define ROTATED(x,b) (((x) << (b)) | ((x) >> (64 - (b))))

static uint64_t word_at (const char *s) {
  const unsigned char *b = (const unsigned char *)s;
  return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
         (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
}

static uint64_t last_word (const char *s, size_t l) {
  uint64_t word = 0;
  while (l--) word = word << 8 | (unsigned char)s[l];
  return word;
}

static void sip_round (uint64_t v[4]) {
  v[0] += v[1]; v[1] = ROTATED(v[1], 13); v[1] ^= v[0]; v[0] = ROTATED(v[0], 32);
  v[2] += v[3]; v[3] = ROTATED(v[3], 16); v[3] ^= v[2];
  v[0] += v[3]; v[3] = ROTATED(v[3], 21); v[3] ^= v[0];
  v[2] += v[1]; v[1] = ROTATED(v[1], 17); v[1] ^= v[2]; v[2] = ROTATED(v[2], 32);
}

/* SipHash-1-3, folded to 32 bits. */
unsigned int dictum_key (const uint64_t keys[2], const char *s, size_t l) {
  uint64_t v[4], word;
  size_t left = l;
  v[0] = keys[0] ^ 0x736f6d6570736575ULL;
  v[1] = keys[1] ^ 0x646f72616e646f6dULL;
  v[2] = keys[0] ^ 0x6c7967656e657261ULL;
  v[3] = keys[1] ^ 0x7465646279746573ULL;
  for (; left >= 8; s += 8, left -= 8) {
    word = word_at(s);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
  }
  word = last_word(s, left) | (uint64_t)l << 56;
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
  v[2] ^= 0xff;
  sip_round(v);
  sip_round(v);
  sip_round(v);
  word = v[0] ^ v[1] ^ v[2] ^ v[3];
  return (unsigned int)(word ^ word >> 32);
}

/*
** As in Lua 5.1, but every byte counts, as in a Redis: so `pairs` goes by the same order as there. By
** the old rules, which entries of earlier versions go by, at most 32 bytes do.
*/
unsigned int dictum_hash (int old_rules, const char *s, size_t l) {
  unsigned int sum = (unsigned int)l;
  size_t stride = old_rules ? l / 32 + 1 : 1;
  size_t left;
  for (left = l; left >= stride; left -= stride) {
    sum ^= (sum << 5) + (sum >> 2) + (unsigned char)s[left - 1];
  }
  return sum;
}

/* A secret of a new machine, and objects counted from the beginning. */
void dictum_newstate (uint64_t keys[2]) {
  keys[0] = (uint64_t)(uintptr_t)keys;
  keys[1] = (uint64_t)(uintptr_t)&keys ^ ROTATED((uint64_t)(uintptr_t)&dictum_newstate, 32);
#if defined(HAS_ENTROPY)
  {
    uint64_t drawn[2];
    if (getentropy(drawn, sizeof(drawn)) == 0) {
      keys[0] ^= drawn[0];
      keys[1] ^= drawn[1];
    }
  }
#endif
  dictum_meter.next_id = 0;
}


/*
** What the machine's owner calls, before scripts can: data/src/script/vm.rs.
*/

/* Before anything else: this machine goes by the rules of entries before there were budgets. */
static int old_rules (lua_State *L) {
  global_State *g = G(L);
  GCObject *o;
  int i;
  g->dictum_old = 1;
  for (i = 0; i < g->strt.size; i++) {
    for (o = g->strt.hash[i]; o != NULL; o = o->gch.next) {
      TString *ts = rawgco2ts(o);
      ts->tsv.hash = dictum_hash(1, getstr(ts), ts->tsv.len);
    }
  }
  /* Tables are to be found again by the other hash. */
  for (o = g->rootgc; o != NULL; o = o->gch.next) {
    if (o->gch.tt == LUA_TTABLE) luaH_resizearray(L, gco2h(o), gco2h(o)->sizearray);
  }
  return 0;
}

/*
** Before each script, and whatever came before it: the count begins anew. By the old rules only
** instructions count, from lua_sethook on. Answers what the hook was not told of.
*/
static int begin (lua_State *L) {
  lua_pushnumber(L, (lua_Number)dictum_meter.due + (L->basehookcount - L->hookcount));
  dictum_meter.due = 0;
  dictum_meter.registry = hvalue(registry(L));
  dictum_meter.next_id = FIRST_ID;
  dictum_meter.slice = (size_t)-1;
  if (!G(L)->dictum_old) {
    dictum_meter.slice = SLICE;
    resethookcount(L);
  }
  return 1;
}

void dictum_open (lua_State *L) {
  lua_register(L, "dictum_old_rules", old_rules);
  lua_register(L, "dictum_begin", begin);
}
