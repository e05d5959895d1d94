# Fits, and what goes to Python and comes back.

held <- new.env(parent = emptyenv())

#' The Python package.
privreg_module <- function() {
  if (is.null(held$module)) held$module <- reticulate::import("privreg", convert = FALSE)
  held$module
}

# Lists become dictionaries or lists, vectors lists: c(18, 65) is a pair, c(a = 1) a dictionary; one value stays one.
to_python <- function(x) {
  if (inherits(x, "python.builtin.object") || is.null(x)) return(x)
  if (is.data.frame(x)) return(rows_to_python(x))
  if (inherits(x, "formula")) return(formula_text(x))
  if (is.factor(x)) x <- as.character(x)
  if (is.list(x) || !is.null(names(x))) {
    values <- lapply(as.list(x), function(v) if (length(v) == 1 && is.null(names(v))) v else to_python(v))
    return(if (is.null(names(x))) reticulate::r_to_py(unname(values)) else do.call(reticulate::dict, values))
  }
  if (length(x) == 1) x else reticulate::r_to_py(as.list(x))
}

# A data frame by lists, which any version of reticulate and NumPy takes. Missing values stay missing.
rows_to_python <- function(x) {
  columns <- lapply(as.list(x), function(v) {
    if (inherits(v, c("Date", "POSIXt"))) v <- format(v)
    if (is.factor(v)) v <- as.character(v)
    if (is.integer(v) && anyNA(v)) v <- as.numeric(v)
    out <- as.list(v)
    if (!is.numeric(v)) out[is.na(v)] <- list(NULL)
    reticulate::r_to_py(out)
  })
  reticulate::import("pandas", convert = FALSE)$DataFrame(do.call(reticulate::dict, columns))
}

# As privreg writes formulas: factor() is C(), and ^ is a power, in Python **.
formula_text <- function(x) {
  text <- paste(deparse(x, width.cutoff = 500L), collapse = " ")
  text <- gsub("\\bfactor\\(", "C(", text)
  gsub("\\b(log|exp|sqrt)\\(", "np.\\1(", text)
}

# A call of Python, whose errors are R's: the message as it is, without Python's stack. Their class is
# python.builtin.Exception or Rcpp::exception, by the version of reticulate.
ask <- function(expr) {
  tryCatch(expr, error = function(e) {
    text <- sub("^([A-Za-z_]+\\.)*[A-Za-z]+(Error|Exception): ", "", conditionMessage(e))
    stop(trimws(text), call. = FALSE)
  })
}

# The call without the rows and environments that do.call() writes into it: it is printed and saved with results.
bare <- function(call) {
  for (name in setdiff(names(call), "")) {
    given <- call[[name]]
    if (inherits(given, "formula")) call[[name]] <- str2lang(formula_text(given))
    else if (!is.language(given) && (is.recursive(given) || length(given) > 1)) call[[name]] <- as.name(name)
  }
  call[[1]] <- quote(privreg)
  call
}

# R's numbers are double: one that is whole is a whole number to Python, such as a seed.
whole <- function(x) {
  if (is.double(x) && length(x) == 1 && is.null(names(x)) && isTRUE(x == round(x) && abs(x) < 2^31)) as.integer(x) else x
}

privreg <- function(formula, data, family = "huber", mu, ..., fit = list()) {
  pr <- privreg_module()
  given <- lapply(lapply(list(...), whole), to_python)
  if (!missing(mu)) given["mu"] <- list(if (is.null(mu)) NULL else to_python(mu))
  text <- if (is.character(formula)) formula else formula_text(formula)
  model <- ask(do.call(
    pr$PrivateOnlineRegression$from_formula,
    c(list(text, to_python(data), family = to_python(family)), given)
  ))
  options <- c(lapply(lapply(fit, whole), to_python), if (is.null(fit$progress)) list(progress = FALSE))
  wrapped(ask(do.call(model$fit, options)), bare(match.call()), text)
}

#' Results that Python or privreg's own methods saved.
privreg_load <- function(path) {
  wrapped(ask(privreg_module()$load(path)), match.call(), NULL)
}

wrapped <- function(results, call, text) {
  structure(list(results = results, call = call, formula = text), class = "privreg")
}

# A table of Python's as a data frame, and a column of it as a vector.
frame <- function(x) {
  names <- reticulate::py_to_r(x$columns$astype("str")$tolist())
  count <- reticulate::py_len(x)
  columns <- lapply(seq_along(names), function(j) vector_of(x$iloc(axis = 1L)[[j - 1L]]))
  out <- stats::setNames(columns, unlist(names))
  as.data.frame(out, check.names = FALSE, optional = TRUE, row.names = seq_len(count))
}

vector_of <- function(x) {
  values <- reticulate::py_to_r(x$tolist())
  if (is.list(values)) unlist(lapply(values, function(v) if (is.null(v)) NA else v)) else values
}
