/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/chat_command.h"
#include "option_case.h"

#include <string.h>

static struct wn_chat_text text;
static struct wn_chat_command command;
static struct wn_error err;

/* Adds a line; returns whether the text is complete. */
static bool add(const char *line) {
    assert_int_equal(wn_chat_text_add(&text, line, strlen(line), &err), WN_OK);
    return !text.is_open;
}

static wn_status read_line(const char *line) {
    memset(&err, 0, sizeof err);
    assert_true(add(line));
    return wn_chat_command_read(&text, &command, &err);
}

static void expect(const char *line, enum wn_chat_verb verb, const char *argument) {
    assert_int_equal(read_line(line), WN_OK);
    assert_int_equal(command.verb, verb);
    assert_int_equal(command.n_bytes, strlen(argument));
    assert_memory_equal(command.text, argument, strlen(argument));
}

static void refused(const char *line, const char *sentence) {
    option_assert_refused(read_line(line), &err, sentence);
}

static int free_text(void **state) {
    (void)state;
    wn_chat_text_free(&text);
    return 0;
}

static void a_line_is_a_turn(void **state) {
    (void)state;
    expect("Hello there", WN_CHAT_SAY, "Hello there");
    expect(" \tHello \t", WN_CHAT_SAY, "Hello");
    expect("", WN_CHAT_NOTHING, "");
    expect(" \t ", WN_CHAT_NOTHING, "");
    expect("what / is this", WN_CHAT_SAY, "what / is this");
    expect("\"quoted\"", WN_CHAT_SAY, "\"quoted\"");
}

static void commands_are_read(void **state) {
    (void)state;
    expect("/help", WN_CHAT_HELP, "");
    expect("  /stats  ", WN_CHAT_STATS, "");
    expect("/save a b.wkv ", WN_CHAT_SAVE, "a b.wkv");
    expect("/load\tx", WN_CHAT_LOAD, "x");
    expect("/compress", WN_CHAT_COMPRESS, "");
    expect("/compress 20%", WN_CHAT_COMPRESS, "20%");
    expect("/budget none", WN_CHAT_BUDGET, "none");
    expect("/undo", WN_CHAT_UNDO, "");
    expect("/regen", WN_CHAT_REGEN, "");
    expect("/clear", WN_CHAT_CLEAR, "");
    expect("/system Be brief.", WN_CHAT_SYSTEM, "Be brief.");
    expect("/system", WN_CHAT_SYSTEM, "");
    expect("/quit", WN_CHAT_QUIT, "");
}

static void two_slashes_say_one(void **state) {
    (void)state;
    expect("//help is a word", WN_CHAT_SAY, "/help is a word");
    expect("//", WN_CHAT_SAY, "/");
    expect("///", WN_CHAT_SAY, "//");
}

static void what_is_no_command_is_refused(void **state) {
    (void)state;
    refused("/sav x", "unknown command /sav (did you mean /save?)");
    refused("/comprss", "(did you mean /compress?)");
    refused("/usr/bin/python",
            "unknown command /usr/bin/python (/help lists them; begin with // to");
    refused("/", "unknown command / (/help lists them;");
    refused("/ save", "unknown command / (");
    refused("/save", "/save needs a value (write /save FILE)");
    refused("/load  ", "/load needs a value (write /load FILE)");
    refused("/clear all", "/clear takes no value (");
    refused("/QUIT", "unknown command /QUIT");
    refused("/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "unknown command /aaaa");
}

static void a_backslash_goes_on(void **state) {
    (void)state;
    assert_false(add("one\\"));
    assert_false(add("two\\"));
    assert_true(add("three"));
    assert_int_equal(wn_chat_command_read(&text, &command, &err), WN_OK);
    assert_int_equal(command.verb, WN_CHAT_SAY);
    assert_string_equal(command.text, "one\ntwo\nthree");
    /* A complete text is followed by another. */
    expect("four", WN_CHAT_SAY, "four");
    assert_false(add("/system one\\"));
    assert_true(add("two"));
    assert_int_equal(wn_chat_command_read(&text, &command, &err), WN_OK);
    assert_int_equal(command.verb, WN_CHAT_SYSTEM);
    assert_string_equal(command.text, "one\ntwo");
}

static void quotes_hold_lines_together(void **state) {
    (void)state;
    assert_false(add(" \"\"\"one"));
    assert_false(add(""));
    assert_false(add("/help \"\"\" two\\"));
    assert_true(add("three\"\"\" "));
    assert_int_equal(wn_chat_command_read(&text, &command, &err), WN_OK);
    assert_int_equal(command.verb, WN_CHAT_SAY);
    assert_int_equal(command.n_bytes, strlen("one\n\n/help \"\"\" two\\\nthree"));
    assert_memory_equal(command.text, "one\n\n/help \"\"\" two\\\nthree", command.n_bytes);
    assert_false(add("\"\"\""));
    assert_false(add("/quit"));
    assert_true(add("\"\"\""));
    assert_int_equal(wn_chat_command_read(&text, &command, &err), WN_OK);
    assert_int_equal(command.verb, WN_CHAT_SAY);
    assert_int_equal(command.n_bytes, strlen("/quit"));
    expect("\"\"\"//one\"\"\"", WN_CHAT_SAY, "//one");
    expect("\"\"\"\"\"\"", WN_CHAT_NOTHING, "");
}

static void long_lines_are_held(void **state) {
    (void)state;
    static char line[100001];
    memset(line, 'x', sizeof line - 1);
    expect(line, WN_CHAT_SAY, line);
    expect("y", WN_CHAT_SAY, "y");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_turn),    cmocka_unit_test(commands_are_read),
        cmocka_unit_test(two_slashes_say_one), cmocka_unit_test(what_is_no_command_is_refused),
        cmocka_unit_test(a_backslash_goes_on), cmocka_unit_test(quotes_hold_lines_together),
        cmocka_unit_test(long_lines_are_held),
    };
    return cmocka_run_group_tests(tests, NULL, free_text);
}
