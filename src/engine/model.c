/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/architectures.h"
#include "engine/engine.h"
#include "engine/gguf_check.h"
#include "engine/text.h"

const char *wn_version(void) {
    return WN_VERSION;
}

/* ---- what llama.cpp logs ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_error[256];

static void keep_errors(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level != GGML_LOG_LEVEL_ERROR)
        return;
    pthread_mutex_lock(&log_lock);
    snprintf(log_error, sizeof log_error, "%s", text);
    log_error[strcspn(log_error, "\n")] = '\0';
    pthread_mutex_unlock(&log_lock);
}

void wn_llama_take_error(char *text, size_t text_bytes) {
    pthread_mutex_lock(&log_lock);
    snprintf(text, text_bytes, "%s", log_error);
    log_error[0] = '\0';
    pthread_mutex_unlock(&log_lock);
}

static void init_backend(void) {
    llama_log_set(keep_errors, NULL);
    llama_backend_init();
}

/* ---- opening ---- */

/* Widest sliding window, in tokens: more than any model's context. */
enum { MAX_WINDOW = 1 << 24 };

static wn_status refuse(struct wn_error *err, const char *architecture, const char *reason) {
    return wn_error_set(err, WN_E_MODEL, "the model's architecture '%s' is not supported: %s",
                        architecture, reason);
}

/* Reasons that the file's metadata shows, before weights are read. */
static wn_status check_metadata(const struct wn_gguf_info *info, struct wn_error *err) {
    const char *reason = wn_architecture_refusal(info->architecture);
    if (reason != NULL)
        return refuse(err, info->architecture, reason);
    if (info->kv_lora_rank > 0)
        return refuse(err, info->architecture,
                      "it compresses keys and values itself (multi-head latent attention)");
    if (info->has_ssm)
        return refuse(err, info->architecture, "it has recurrent (state-space) layers");
    if (!info->has_tokenizer)
        return wn_error_set(err, WN_E_MODEL,
                            "the model file has no tokenizer, so text cannot be read");
    return WN_OK;
}

/* Reasons that the loaded model shows. */
static wn_status check_loaded(const struct wn_model *model, struct wn_error *err) {
    const struct llama_model *llama = model->llama;
    if (llama_model_has_encoder(llama))
        return refuse(err, model->architecture, wn_refusal_encoder);
    if (!llama_model_has_decoder(llama))
        return refuse(err, model->architecture, "it has no decoder");
    if (llama_model_is_recurrent(llama))
        return refuse(err, model->architecture, wn_refusal_recurrent);
    if (llama_model_is_hybrid(llama))
        return refuse(err, model->architecture, wn_refusal_hybrid);
    if (llama_model_is_diffusion(llama))
        return refuse(err, model->architecture, wn_refusal_diffusion);
    if (llama_model_n_swa(llama) > MAX_WINDOW)
        return refuse(err, model->architecture, "its sliding window is out of range");
    return WN_OK;
}

static bool template_works(const char *chat_template) {
    const struct llama_chat_message message = {.role = "user", .content = "x"};
    return chat_template != NULL &&
           llama_chat_apply_template(chat_template, &message, 1, true, NULL, 0) > 0;
}

/*
 * Of RoPE factors for long and for short contexts, llama.cpp takes those that the size of its cache
 * asks for, which is a batch here. They are taken by the length that the model was trained for
 * instead, whatever the context: a text's keys then go with every engine and cache file.
 */
static void choose_factors(const struct wn_gguf_info *info,
                           struct llama_model_kv_override override[2]) {
    override[0] = override[1] = (struct llama_model_kv_override){0};
    if (!info->has_length_factors)
        return;
    override[0].tag = LLAMA_KV_OVERRIDE_TYPE_INT;
    override[0].val_i64 = info->n_ctx_train > info->n_ctx_original ? 1 : INT32_MAX;
    snprintf(override[0].key, sizeof override[0].key, "%s.rope.scaling.original_context_length",
             info->architecture);
}

static wn_status load(struct wn_model *model, const struct wn_gguf_info *info, const char *path,
                      struct wn_error *err) {
    struct llama_model_params params = llama_model_default_params();
    struct llama_model_kv_override override[2];
    choose_factors(info, override);
    params.n_gpu_layers = 0;
    params.kv_overrides = override;
    model->llama = llama_model_load_from_file(path, params);
    if (model->llama == NULL) {
        char detail[256];
        wn_llama_take_error(detail, sizeof detail);
        return wn_error_set(err, WN_E_BACKEND, "llama.cpp cannot load %s (%s)", path,
                            detail[0] != '\0' ? detail : "no reason given");
    }
    model->vocab = llama_model_get_vocab(model->llama);
    model->n_layers = llama_model_n_layer(model->llama);
    model->n_vocab = llama_vocab_n_tokens(model->vocab);
    llama_model_desc(model->llama, model->description, sizeof model->description);
    const char *chat_template = llama_model_chat_template(model->llama, NULL);
    if (template_works(chat_template))
        model->chat_template = chat_template;
    return check_loaded(model, err);
}

wn_status wn_model_open(const char *path, struct wn_model **out, struct wn_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_backend);
    struct wn_gguf_info info;
    wn_status status = wn_gguf_check_file(path, &info, err);
    if (status == WN_OK)
        status = check_metadata(&info, err);
    if (status != WN_OK)
        return status;
    struct wn_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    snprintf(model->architecture, sizeof model->architecture, "%s", info.architecture);
    model->file_bytes = (int64_t)info.file_bytes;
    model->n_positions = info.n_positions;
    model->path = strdup(path);
    status = model->path != NULL ? load(model, &info, path, err)
                                 : wn_error_set(err, WN_E_MEMORY, "out of memory");
    if (status != WN_OK) {
        wn_model_free(model);
        return status;
    }
    *out = model;
    return WN_OK;
}

wn_status wn_model_check_positions(const struct wn_model *model, int64_t n, struct wn_error *err) {
    if (model->n_positions == 0 || n <= model->n_positions)
        return WN_OK;
    return wn_error_set(err, WN_E_CONTEXT,
                        "the model has learned %lld positions, and the context would have %lld",
                        (long long)model->n_positions, (long long)n);
}

void wn_model_free(struct wn_model *model) {
    if (model == NULL)
        return;
    if (model->llama != NULL)
        llama_model_free(model->llama);
    free(model->path);
    free(model);
}

void wn_model_info(const struct wn_model *model, struct wn_model_info *out) {
    *out = (struct wn_model_info){
        .architecture = model->architecture,
        .description = model->description,
        .n_ctx_train = llama_model_n_ctx_train(model->llama),
        .n_params = (int64_t)llama_model_n_params(model->llama),
        .file_bytes = model->file_bytes,
        .n_layers = model->n_layers,
        .n_vocab = model->n_vocab,
        .has_chat_template = model->chat_template != NULL,
    };
}

/* ---- tokens ---- */

void wn_tokens_free(struct wn_tokens *tokens) {
    if (tokens == NULL)
        return;
    free(tokens->id);
    *tokens = (struct wn_tokens){0};
}

/* Appends the tokens of clean text. llama.cpp takes lengths as int32. */
static wn_status append_tokens(const struct wn_model *model, const char *text, size_t n_bytes,
                               bool add_begin, bool parse_special, struct wn_tokens *tokens,
                               struct wn_error *err) {
    if (n_bytes == 0 && !add_begin)
        return WN_OK;
    if (n_bytes > (size_t)INT32_MAX - 64)
        return wn_error_set(err, WN_E_ARG, "the text has %zu bytes; at most 2 GiB can be tokenised",
                            n_bytes);
    /* Few tokenizers make more tokens than bytes, end tokens apart; those say how many. */
    int32_t room = (int32_t)n_bytes + 8, n = -room;
    for (int attempt = 0; attempt < 2 && n < 0 && n != INT32_MIN; attempt++) {
        room = -n;
        int32_t *larger = realloc(tokens->id, ((size_t)tokens->n + (size_t)room) * sizeof *larger);
        if (larger == NULL)
            return wn_error_set(err, WN_E_MEMORY, "out of memory while tokenising");
        tokens->id = larger;
        n = llama_tokenize(model->vocab, text, (int32_t)n_bytes, tokens->id + tokens->n, room,
                           add_begin, parse_special);
    }
    if (n < 0)
        return wn_error_set(err, WN_E_BACKEND, "llama.cpp cannot tokenise the text");
    tokens->n += n;
    /* With the begin token llama.cpp also adds an end token where the vocabulary asks for one. */
    if (add_begin && n > 0 && llama_vocab_get_add_eos(model->vocab) &&
        tokens->id[tokens->n - 1] == llama_vocab_eos(model->vocab))
        tokens->n--;
    return WN_OK;
}

/* Appends text in which nothing is a control token; invalid bytes are replaced first. */
static wn_status append_plain(const struct wn_model *model, const char *text, size_t n_bytes,
                              bool add_begin, struct wn_tokens *tokens, struct wn_error *err) {
    char *clean = NULL;
    size_t n_clean = 0;
    wn_status status = wn_text_clean(text, n_bytes, &clean, &n_clean);
    if (status != WN_OK)
        return wn_error_set(err, status, "out of memory while reading the text");
    status = append_tokens(model, clean, n_clean, add_begin, false, tokens, err);
    free(clean);
    return status;
}

static wn_status hand_over(wn_status status, struct wn_tokens *tokens, struct wn_tokens *out) {
    if (status == WN_OK)
        *out = *tokens;
    else
        wn_tokens_free(tokens);
    return status;
}

wn_status wn_model_tokenize(const struct wn_model *model, const char *text, size_t n_bytes,
                            bool add_begin, struct wn_tokens *out, struct wn_error *err) {
    struct wn_tokens tokens = {0};
    return hand_over(append_plain(model, text, n_bytes, add_begin, &tokens, err), &tokens, out);
}

int wn_model_token_text(const struct wn_model *model, int32_t token, char *buf, int buf_bytes) {
    if (token < 0 || token >= model->n_vocab)
        return 0;
    const int32_t n = llama_token_to_piece(model->vocab, token, buf, buf_bytes, 0, false);
    return n > 0 ? n : 0;
}

bool wn_model_token_is_end(const struct wn_model *model, int32_t token) {
    return llama_vocab_is_eog(model->vocab, token);
}

/* ---- chat turns ---- */

/* Marks stand for the texts while the template is applied; what is around them is the template's
 * own. None is the beginning of another. */
static const char user_mark[] = "winnow-user-mark";
static const char answer_mark[] = "winnow-answer-mark";
static const char next_mark[] = "winnow-next-mark";
static const char system_mark[] = "winnow-system-mark";

/* The messages in the model's template, and the beginning of an answer behind them; to be freed.
 * NULL: it cannot be applied to them, or out of memory. */
static char *render(const struct wn_model *model, const struct llama_chat_message *messages,
                    size_t n) {
    const int32_t n_bytes =
        llama_chat_apply_template(model->chat_template, messages, n, true, NULL, 0);
    char *text = n_bytes > 0 ? malloc((size_t)n_bytes + 1) : NULL;
    if (text == NULL)
        return NULL;
    llama_chat_apply_template(model->chat_template, messages, n, true, text, n_bytes + 1);
    text[n_bytes] = '\0';
    return text;
}

/* Where the mark stands in the text, which must hold it once; NULL otherwise. */
static const char *find_once(const char *text, const char *mark) {
    const char *at = strstr(text, mark);
    return at != NULL && strstr(at + 1, mark) == NULL ? at : NULL;
}

/* A template's text around the texts of a conversation. */
struct cut {
    char *rendered; /* to be freed */
    const char *before, *between, *after;
    size_t n_before, n_between;
};

/* Cuts what the template makes of the messages at two marks, of which the first stands in the first
 * message; the text behind the second is `after`. False: they do not stand in it once, in order. */
static bool cut_at(const struct wn_model *model, const struct llama_chat_message *messages,
                   size_t n, const char *first_mark, const char *second_mark, struct cut *out) {
    char *text = render(model, messages, n);
    const char *first = text != NULL ? find_once(text, first_mark) : NULL;
    const char *second = text != NULL ? find_once(text, second_mark) : NULL;
    if (first == NULL || second == NULL || second < first) {
        free(text);
        return false;
    }
    const char *between = first + strlen(first_mark);
    *out = (struct cut){.rendered = text,
                        .before = text,
                        .n_before = (size_t)(first - text),
                        .between = between,
                        .n_between = first == second ? 0 : (size_t)(second - between),
                        .after = second + strlen(second_mark)};
    return true;
}

static wn_status refuse_template(struct wn_error *err) {
    return wn_error_set(err, WN_E_MODEL,
                        "the model's chat template does not hold each text of a conversation "
                        "exactly once");
}

/* Around the first user's text. */
static bool cut_question(const struct wn_model *model, struct cut *out) {
    const struct llama_chat_message message = {.role = "user", .content = user_mark};
    return cut_at(model, &message, 1, user_mark, user_mark, out);
}

/* Around a later answer, up to the next user's text and behind it. */
static bool cut_turn(const struct wn_model *model, struct cut *out) {
    const struct llama_chat_message messages[] = {{.role = "user", .content = user_mark},
                                                  {.role = "assistant", .content = answer_mark},
                                                  {.role = "user", .content = next_mark}};
    return cut_at(model, messages, 3, answer_mark, next_mark, out);
}

/* Around a system prompt, up to the first user's text. */
static bool cut_system(const struct wn_model *model, struct cut *out) {
    const struct llama_chat_message messages[] = {{.role = "system", .content = system_mark},
                                                  {.role = "user", .content = user_mark}};
    return cut_at(model, messages, 2, system_mark, user_mark, out);
}

/* A template that writes the begin token itself must not get a second one. */
static bool starts_with_begin(const struct wn_model *model, const char *text, size_t n_bytes) {
    const llama_token begin = llama_vocab_bos(model->vocab);
    const char *piece =
        begin != LLAMA_TOKEN_NULL ? llama_vocab_get_text(model->vocab, begin) : NULL;
    return piece != NULL && strlen(piece) <= n_bytes && strncmp(text, piece, strlen(piece)) == 0;
}

/* The template's text in front of the first text. */
static wn_status append_beginning(const struct wn_model *model, const struct cut *cut,
                                  struct wn_tokens *tokens, struct wn_error *err) {
    return append_tokens(model, cut->before, cut->n_before,
                         !starts_with_begin(model, cut->before, cut->n_before), true, tokens, err);
}

/* A text in front of the user's own, with a blank line behind it. */
static wn_status append_paragraph(const struct wn_model *model, const char *text, size_t n_bytes,
                                  bool add_begin, struct wn_tokens *tokens, struct wn_error *err) {
    if (text == NULL || n_bytes == 0)
        return add_begin ? append_tokens(model, "", 0, true, false, tokens, err) : WN_OK;
    const wn_status status = append_plain(model, text, n_bytes, add_begin, tokens, err);
    return status == WN_OK ? append_tokens(model, "\n\n", 2, false, false, tokens, err) : status;
}

/* Up to where the first user's text begins. A template that has no place for a system prompt gets it
 * in front of that text. */
static wn_status append_system(const struct wn_model *model, const char *system, size_t n_bytes,
                               struct wn_tokens *tokens, struct wn_error *err) {
    if (model->chat_template == NULL)
        return append_paragraph(model, system, n_bytes, true, tokens, err);
    const bool is_empty = system == NULL || n_bytes == 0;
    struct cut cut = {0};
    const bool has_place = !is_empty && cut_system(model, &cut);
    if (!has_place && !cut_question(model, &cut))
        return refuse_template(err);
    wn_status status = append_beginning(model, &cut, tokens, err);
    if (status == WN_OK && has_place)
        status = append_plain(model, system, n_bytes, false, tokens, err);
    if (status == WN_OK && has_place)
        status = append_tokens(model, cut.between, cut.n_between, false, true, tokens, err);
    if (status == WN_OK && !has_place)
        status = append_paragraph(model, system, n_bytes, false, tokens, err);
    free(cut.rendered);
    return status;
}

wn_status wn_model_chat_begin(const struct wn_model *model, const char *system,
                              size_t n_system_bytes, const char *document, size_t n_document_bytes,
                              struct wn_tokens *out, struct wn_error *err) {
    struct wn_tokens tokens = {0};
    wn_status status = append_system(model, system, n_system_bytes, &tokens, err);
    if (status == WN_OK)
        status = append_paragraph(model, document, n_document_bytes, false, &tokens, err);
    return hand_over(status, &tokens, out);
}

wn_status wn_model_chat_document(const struct wn_model *model, const char *document, size_t n_bytes,
                                 struct wn_tokens *out, struct wn_error *err) {
    return wn_model_chat_begin(model, NULL, 0, document, n_bytes, out, err);
}

wn_status wn_model_chat_question(const struct wn_model *model, const char *question, size_t n_bytes,
                                 struct wn_tokens *out, struct wn_error *err) {
    struct wn_tokens tokens = {0};
    wn_status status = append_plain(model, question, n_bytes, false, &tokens, err);
    struct cut cut = {0};
    if (status == WN_OK && model->chat_template == NULL)
        status = append_tokens(model, "\n", 1, false, false, &tokens, err);
    else if (status == WN_OK)
        status = cut_question(model, &cut)
                     ? append_tokens(model, cut.after, strlen(cut.after), false, true, &tokens, err)
                     : refuse_template(err);
    free(cut.rendered);
    return hand_over(status, &tokens, out);
}

wn_status wn_model_chat_next(const struct wn_model *model, struct wn_tokens *out,
                             struct wn_error *err) {
    struct wn_tokens tokens = {0};
    struct cut cut = {0};
    wn_status status = WN_OK;
    if (model->chat_template == NULL)
        status = append_tokens(model, "\n\n", 2, false, false, &tokens, err);
    else
        status = cut_turn(model, &cut)
                     ? append_tokens(model, cut.between, cut.n_between, false, true, &tokens, err)
                     : refuse_template(err);
    free(cut.rendered);
    return hand_over(status, &tokens, out);
}
