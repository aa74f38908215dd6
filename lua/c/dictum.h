/*
** What Dictum adds to Lua: work is counted where an instruction may take longer than a moment,
** and nothing that a script sees depends on addresses. See ../README.md.
*/
#ifndef dictum_h
#define dictum_h

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct lua_State;

#if defined(_MSC_VER)
#define DICTUM_THREAD __declspec(thread)
#else
#define DICTUM_THREAD __thread
#endif

/*
** One of them for each thread of the operating system: that runs one script at a time. Functions
** that search in tables do not know a lua_State, so the count cannot stand there.
*/
typedef struct dictum_Meter {
  size_t due;            /* units of work that the hook has not been told of yet */
  size_t slice;          /* the hook is called once for so many units */
  const void *registry;  /* a table whose searches do not count: its layout depends on addresses */
  unsigned int next_id;  /* of the next object that a script can have as a key */
  unsigned int next_userdata;  /* of the next userdata: mlua keeps some of these for later, so their number depends on what ran before */
} dictum_Meter;

extern DICTUM_THREAD dictum_Meter dictum_meter;

/* Notes work. Where that is all that is done, one call's work is bounded by the size of its arguments. */
#define dictum_spend(n)    ((void)(dictum_meter.due += (size_t)(n)))
/* The same, for work on a table. */
#define dictum_spendon(t,n) \
  ((void)(dictum_meter.due += ((const void *)(t) != dictum_meter.registry) ? (size_t)(n) : 0))
#define dictum_isdue()     (dictum_meter.due >= dictum_meter.slice)
/* Where a loop has no other end than a limit. The hook may raise an error. */
#define dictum_check(L)    ((void)(dictum_isdue() && (dictum_pay(L), 0)))
#define dictum_newid()     (dictum_meter.next_id++)
#define dictum_newuserdata() (dictum_meter.next_userdata++)

void dictum_pay (struct lua_State *L);
void dictum_newstate (uint64_t keys[2]);
void dictum_open (struct lua_State *L);
void dictum_enter (struct lua_State *from, struct lua_State *to);
void dictum_leave (struct lua_State *from, struct lua_State *to);
void dictum_reserve (struct lua_State *L, void *size);
unsigned int dictum_key (const uint64_t keys[2], const char *s, size_t l);
unsigned int dictum_hash (int old_rules, const char *s, size_t l);

/* Numbers to whole ones. In C, what does not fit is undefined; here it is what x86-64 makes of it. */
static inline int dictum_toint (double d) {
  return (d > -2147483649.0 && d < 2147483648.0) ? (int)d : INT_MIN;
}

static inline long long dictum_towide (double d) {
  return (d >= -9223372036854775808.0 && d < 9223372036854775808.0) ? (long long)d : LLONG_MIN;
}

static inline unsigned long long dictum_tounsigned (double d) {
  if (d >= 9223372036854775808.0) {
    return (unsigned long long)dictum_towide(d - 9223372036854775808.0) ^ 0x8000000000000000ULL;
  }
  return (unsigned long long)dictum_towide(d);
}

#endif
