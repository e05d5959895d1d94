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

# As privreg writes formulas: factor() is C(), and ^ is a power, in Python **. Names and texts in quotes stay.
formula_text <- function(x) {
  text <- paste(deparse(x, width.cutoff = 500L), collapse = " ")
  text <- gsub("(\"[^\"]*\"|`[^`]*`)(*SKIP)(*FAIL)|\\^", "**", text, perl = TRUE)
  text <- gsub("\\bfactor\\(", "C(", text)
  gsub("\\b(log|exp|sqrt)\\(", "np.\\1(", text)
}

# Families of R's as privreg's: binomial() is "logistic"; of others, what to write.
family_of <- function(x) {
  if (is.function(x)) x <- x()
  name <- if (inherits(x, "family")) x$family else x
  if (!is.character(name) || length(name) != 1) return(to_python(x))
  asked <- c(
    gaussian = "\"huber\", whose loss is linear beyond its threshold, or \"squared\"",
    poisson = "privreg_module()$Poisson(y_max = 20), where y_max is a public bound of the counts",
    Gamma = "\"huber\" with the response's logarithm, as in log(y) ~ x",
    inverse.gaussian = "\"huber\" with the response's logarithm, as in log(y) ~ x",
    quasi = "\"huber\", \"logistic\" or privreg_module()$Poisson(y_max = 20); standard errors are sandwiches in each"
  )
  asked["quasipoisson"] <- paste0(asked[["poisson"]], "; its standard errors are a sandwich")
  if (name %in% c("binomial", "quasibinomial")) {
    if (inherits(x, "family") && x$link != "logit") {
      stop("family: binomial has the link \"logit\" here, got \"", x$link, "\".", call. = FALSE)
    }
    return("logistic")
  }
  if (name %in% names(asked)) stop("family: for ", name, " give ", asked[[name]], ".", call. = FALSE)
  if (inherits(x, "family")) {
    stop("family ", name, "() is not known; give \"huber\", \"logistic\" or another that privreg's help names.", call. = FALSE)
  }
  name
}

# A message as R's users write what it asks for.
spoken <- function(text) {
  text <- sub("^(Rcpp::exception: *)?([[:alnum:]_]+\\.)*[[:alnum:]_]*(Error|Exception): ", "", text)
  for (inside in c("\\(([^()]*)\\)", "\\[([^][]*)\\]")) {
    text <- gsub(paste0("\\b([a-z_]+) ?= ?\\{'([^']+)': ", inside, "\\}"), "\\1 = list(\\2 = c(\\3))", text)
    text <- gsub(paste0("\\b([a-z_]+)=", inside), "\\1 = c(\\2)", text)
  }
  text <- gsub("[False, True]", "c(FALSE, TRUE)", text, fixed = TRUE)
  for (word in list(c("True", "TRUE"), c("False", "FALSE"), c("None", "NULL"))) {
    text <- gsub(paste0("=", word[1], "\\b"), paste0(" = ", word[2]), text)
  }
  text
}

# A call of Python, whose errors are R's, without Python's stack and names of classes.
# Their class is python.builtin.Exception or Rcpp::exception, by the version of reticulate.
ask <- function(expr) {
  tryCatch(expr, error = function(e) stop(trimws(spoken(conditionMessage(e))), call. = FALSE))
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
    c(list(text, to_python(data), family = family_of(family)), given)
  ))
  options <- c(lapply(lapply(fit, whole), to_python), if (is.null(fit$progress)) list(progress = FALSE))
  wrapped(ask(do.call(model$fit, options)), bare(match.call()), text)
}

#' A table of Python's, or a data set of privreg's by its name, as a data frame.
privreg_data <- function(x, ...) {
  if (!is.character(x)) return(frame(x))
  sets <- privreg_module()$datasets
  known <- sub("_schema$", "", grep("_schema$", unlist(reticulate::py_to_r(sets$`__all__`)), value = TRUE))
  if (length(x) != 1 || !x %in% known) {
    stop("there is no data set ", paste(x, collapse = ", "), "; there are ", paste(known, collapse = ", "), ".",
         call. = FALSE)
  }
  frame(ask(do.call(sets[[x]], lapply(lapply(list(...), whole), to_python))))
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
