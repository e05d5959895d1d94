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
  x <- plain(x)
  if (is.list(x) || !is.null(names(x))) {
    values <- lapply(as.list(x), function(v) if (length(v) == 1 && is.null(names(v))) plain(v) else to_python(v))
    return(if (is.null(names(x))) reticulate::r_to_py(unname(values)) else do.call(reticulate::dict, values))
  }
  if (length(x) == 1) x else reticulate::r_to_py(as.list(x))
}

# Dates and times as they read on the clock of their time zone; factors as their labels.
plain <- function(x) {
  if (inherits(x, "POSIXt")) return(format(as.POSIXct(x), "%Y-%m-%d %H:%M:%S"))
  if (inherits(x, "Date")) return(format(x, "%Y-%m-%d"))
  if (is.factor(x)) as.character(x) else x
}

# A data frame by lists, which any version of reticulate and NumPy takes; whole vectors at a time, as cell by cell takes
# minutes. Missing values stay missing: of what is no number by places in a list that ends in None.
rows_to_python <- function(x) {
  columns <- lapply(as.list(x), function(v) {
    v <- plain(v)
    if (is.integer(v) && anyNA(v)) v <- as.numeric(v)
    if (is.numeric(v) || !anyNA(v)) return(list_to_python(v))
    known <- unique(v[!is.na(v)])
    values <- reticulate::r_to_py(c(as.list(known), list(NULL)))
    builtins <- reticulate::import_builtins(convert = FALSE)
    builtins$list(builtins$map(values$`__getitem__`, list_to_python(match(v, known, length(known) + 1L) - 1L)))
  })
  reticulate::import("pandas", convert = FALSE)$DataFrame(do.call(reticulate::dict, columns))
}

list_to_python <- function(v) reticulate::r_to_py(if (length(v) > 1) unname(v) else as.list(v))

# Names of the people of some rows: each data frame becomes a new object of Python's, which would count as other
# people's. Rows with a column in common are of the same people, but for columns that many have: two values, or 1, 2, ...
# Columns are known by keyed hashes, which stay in this session's memory with their key; the names tell nothing.
people_of <- function(data) {
  if (!is.list(data) || !length(data)) return(NULL)
  if (is.null(held$key)) {
    held$key <- reticulate::import("secrets", convert = FALSE)$token_bytes(32L)
    held$people <- new.env(parent = emptyenv())
  }
  hash <- function(v) {
    bytes <- reticulate::r_to_py(serialize(v, NULL, version = 2))
    reticulate::py_to_r(reticulate::import("hashlib", convert = FALSE)$blake2b(bytes, key = held$key)$hexdigest())
  }
  columns <- lapply(unname(as.list(data)), function(v) as.vector(plain(v)))
  rare <- Filter(function(v) length(unique(v)) > 2 && !(is.numeric(v) && isTRUE(all(v == seq_along(v)))), columns)
  marks <- vapply(c(rare, list(columns)), hash, "")
  known <- unique(unlist(mget(marks, envir = held$people, ifnotfound = list(NULL))))
  if (is.null(known)) {
    held$count <- if (is.null(held$count)) 1 else held$count + 1
    known <- paste("data frame", held$count, "of this R session")
  }
  for (mark in marks) assign(mark, known, envir = held$people)
  known
}

# Data by silo: a list, with names, of data frames or paths.
is_silos <- function(data) is.list(data) && !is.data.frame(data) && !is.null(names(data))

# As privreg writes formulas: factor() is C(), ^ is a power, in Python **, `body mass` is Q("body mass").
formula_text <- function(x) {
  if (inherits(x, "formula")) attributes(x) <- NULL
  written(x)
}

numpy <- c("log", "exp", "sqrt", "abs", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "floor", "sign", "tanh")
without <- list(
  ns = "ns() has no place here; write bs(x, knots = c(...), Boundary.knots = c(low, high)), or cr() with its knots",
  offset = "offset() is an argument here: offset = \"column\""
)

written <- function(e) {
  if (is.character(e)) return(encodeString(e, quote = "\""))
  if (is.logical(e) && length(e) == 1 && !is.na(e)) return(if (e) "True" else "False")
  if (is.name(e)) {
    name <- as.character(e)
    return(if (name == make.names(name) && !grepl(".", name, fixed = TRUE) || name == ".") name else paste0("Q(\"", name, "\")"))
  }
  if (!is.call(e)) return(paste(deparse(e, width.cutoff = 500L), collapse = " "))
  name <- e[[1]]
  if (is.call(name) && as.character(name[[1]]) %in% c("::", ":::")) name <- name[[3]]
  name <- as.character(name)
  args <- vapply(as.list(e)[-1], written, "")
  if (name == "(") return(paste0("(", args, ")"))
  if (name %in% c("+", "-", "~", "!") && length(args) == 1) {
    return(paste0(c("+" = "+", "-" = "-", "~" = "~ ", "!" = "~")[[name]], args))
  }
  if (name %in% c(":", "^", "/")) return(paste(args, collapse = if (name == "^") "**" else name))
  if (length(args) == 2 && grepl("^[^[:alnum:]._]+$", name) && !startsWith(name, "%")) {
    return(paste(args, collapse = paste0(" ", name, " ")))
  }
  if (name %in% names(without)) stop("formula: ", without[[name]], ".", call. = FALSE)
  if (name == "bs") return(spline(e, args))
  if (name == "c") return(paste0("[", paste(args, collapse = ", "), "]"))
  if (name %in% c("factor", "as.factor")) name <- "C"
  if (name %in% numpy) name <- paste0("np.", name)
  given <- names(e)[-1]
  if (!is.null(given)) args <- ifelse(given == "", args, paste0(given, "=", args))
  paste0(name, "(", paste(args, collapse = ", "), ")")
}

# bs() of the splines package, where knots and ends of the range are public numbers.
spline <- function(e, args) {
  given <- as.list(match.call(function(x, df, knots, degree, intercept, Boundary.knots, ...) NULL, e))
  if (!is.null(given$Boundary.knots)) {
    ends <- eval(given$Boundary.knots, baseenv())
    given$Boundary.knots <- NULL
    given$lower_bound <- ends[1]
    given$upper_bound <- ends[2]
  }
  if (is.null(given$knots) || is.null(given$lower_bound) || is.null(given$upper_bound)) {
    stop(
      "formula: bs() takes its knots, by df at quantiles of the rows, and the ends of its range from the rows, which ",
      "nobody sees; give public ones, as in bs(", args[1], ", knots = c(30, 50), Boundary.knots = c(18, 65)).", call. = FALSE
    )
  }
  given$intercept <- if (isTRUE(given$intercept)) given$intercept
  parts <- vapply(given[-1], written, "")
  parts <- ifelse(names(parts) %in% c("", "x"), parts, paste0(names(parts), "=", parts))
  paste0("bs(", paste(parts, collapse = ", "), ")")
}

# A formula or a message of privreg's as R's users write it.
as_in_r <- function(text) {
  text <- gsub("\\bQ\\((\\\\?[\"'])(.*?)\\1\\)", "`\\2`", text, perl = TRUE)
  text <- gsub("\\bC\\(", "factor(", gsub("\\bnp\\.", "", text))
  gsub("(?<![*]) ?[*]{2}(?![*]) ?", "^", text, perl = TRUE)
}

# Families of R's as privreg's: binomial() is "logistic"; of others, what to write.
family_of <- function(x) {
  if (is.function(x)) x <- x()
  name <- if (inherits(x, "family")) x$family else x
  if (!is.character(name) || length(name) != 1) return(to_python(x))
  asked <- c(
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
  if (name == "gaussian" && inherits(x, "family") && x$link != "identity") {
    stop("family: gaussian has the link \"identity\" here, got \"", x$link, "\".", call. = FALSE)
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
  text <- gsub("\\{'([^']*[^[:alnum:]._'][^']*)': ", "{'`\\1`': ", text)
  for (inside in c("\\(([^()]*)\\)", "\\[([^][]*)\\]")) {
    text <- gsub(paste0("\\b([a-z_]+) ?= ?\\{'([^']+)': ", inside, "\\}"), "\\1 = list(\\2 = c(\\3))", text)
    text <- gsub(paste0("\\b([a-z_]+)=", inside), "\\1 = c(\\2)", text)
  }
  text <- gsub("\\[False, True\\]", "c(FALSE, TRUE)", text)
  text <- gsub("(\"[a-z]+\"),\\)", "\\1)", as_in_r(text))
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
    if (inherits(given, "formula")) call[[name]] <- bare_formula(given)
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
  people <- if (is_silos(data)) lapply(data, function(d) as.list(c(list(...)$dataset, people_of(d))))
  else as.list(c(list(...)$dataset, people_of(data)))
  if (length(people)) given$dataset <- to_python(people)
  if (!missing(mu)) given["mu"] <- list(if (is.null(mu)) NULL else to_python(mu))
  text <- if (is.character(formula)) formula else formula_text(formula)
  model <- ask(do.call(
    pr$PrivateOnlineRegression$from_formula,
    c(list(text, to_python(data), family = family_of(family)), given)
  ))
  options <- c(lapply(lapply(fit, whole), to_python), if (is.null(fit$progress)) list(progress = FALSE))
  wrapped(ask(do.call(model$fit, options)), bare(match.call()), if (inherits(formula, "formula")) bare_formula(formula))
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

# Without its environment, which would take the rows along into every saved fit.
bare_formula <- function(x) {
  attributes(x) <- NULL
  x
}

# Python's results live in this process; their file, which holds no rows, goes along where R saves a fit.
wrapped <- function(results, call, formula) {
  here <- new.env(parent = emptyenv())
  here$results <- results
  path <- tempfile(fileext = ".privreg")
  on.exit(unlink(path))
  ask(results$save(path))
  saved <- readBin(path, "raw", file.size(path))
  structure(list(here = here, saved = saved, call = call, formula = formula), class = "privreg")
}

`$.privreg` <- function(x, name) {
  if (name != "results") return(.subset2(x, name))
  here <- .subset2(x, "here")
  if (is.null(here$results) || reticulate::py_is_null_xptr(here$results)) {
    path <- tempfile(fileext = ".privreg")
    on.exit(unlink(path))
    writeBin(.subset2(x, "saved"), path)
    here$results <- ask(privreg_module()$load(path))
  }
  here$results
}

`[[.privreg` <- function(x, i, ...) if (identical(i, "results")) x$results else .subset2(x, i)

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
