# Methods that R's models have.

print.privreg <- function(x, ...) {
  cat("Call:\n", paste(deparse(x$call), collapse = "\n"), "\n\nCoefficients:\n", sep = "")
  table <- table_of(x)
  print(stats::setNames(as.numeric(table$estimate), marked(table$term, table$reliable)), ...)
  cat(note_of(table$reliable), "\nPer person: ", reticulate::py_to_r(x$results$privacy$headline), "\n", sep = "")
  invisible(x)
}

# Names of rows that a note of the summary takes back are marked, as the summary marks them.
mark <- function() if (l10n_info()[["UTF-8"]]) "\u2020" else "+"

marked <- function(names, reliable) paste0(names, ifelse(as.logical(reliable), "", paste0(" ", mark())))

note_of <- function(reliable) {
  if (all(as.logical(reliable))) "" else paste(mark(), "don't rely on these rows: summary() says why.\n")
}

# What has no place for a mark warns.
warn_of <- function(names, reliable) {
  doubtful <- names[!as.logical(reliable)]
  if (!length(doubtful)) return(invisible())
  warning("don't rely on what has ", paste(doubtful, collapse = ", "), ": summary() says why.", call. = FALSE)
}

table_of <- function(object, level = 0.95, exponentiate = FALSE) {
  out <- frame(ask(object$results$tidy(exponentiate = exponentiate, conf_level = level)))
  out$term <- terms_of(out$term)
  if ("level" %in% names(out)) out$term <- paste(out$level, out$term, sep = ":")
  out
}

# Coefficients as lm() names them: (Intercept), gb, factor(black)1, x:gb, I(x^2).
terms_of <- function(x) {
  x <- sub("^(Intercept|const)$", "(Intercept)", as_in_r(x))
  gsub("\\[(?:T\\.)?([^][]*)\\]", "\\1", x, perl = TRUE)
}

# A text of Python's with R's names; rows of tables in columns as wide as they were.
renamed <- function(text, names) {
  lines <- strsplit(text, "\n", fixed = TRUE)[[1]]
  new <- terms_of(names)
  for (k in seq_along(lines)) {
    row <- which(startsWith(lines[k], paste0(names, " ")))
    if (!length(row)) {
      lines[k] <- gsub("\\bres\\.([a-z_]+)", "fit$results$\\1", as_in_r(lines[k]))
      for (j in which(names != new)) {
        lines[k] <- gsub(paste0("(?<![[:alnum:]:(])\\Q", as_in_r(names[j]), "\\E(?![[:alnum:]:\\[])"), new[j], lines[k], perl = TRUE)
      }
      next
    }
    j <- row[which.max(nchar(names[row]))]
    rest <- substring(lines[k], nchar(names[j]) + 1)
    wider <- nchar(new[j]) - nchar(names[j])
    rest <- if (wider > 0) sub(paste0("( [^ [:alnum:]-])?", strrep(" ", wider)), "\\1", rest) else paste0(strrep(" ", -wider), rest)
    mark <- regmatches(rest, regexpr("^ *\u2020", rest))
    if (length(mark)) rest <- paste0(" \u2020", strrep(" ", nchar(mark) - 2), substring(rest, nchar(mark) + 1))
    lines[k] <- paste0(new[j], rest)
  }
  paste(lines, collapse = "\n")
}

summary.privreg <- function(object, ...) {
  table <- table_of(object)
  coefficients <- as.matrix(table[c("estimate", "std_error", "statistic", "p_value")])
  dimnames(coefficients) <- list(table$term, c("Estimate", "Std. Error", "t value", "Pr(>|t|)"))
  text <- renamed(reticulate::py_to_r(object$results$summary()$as_text()), frame(ask(object$results$tidy()))$term)
  structure(
    list(call = object$call, coefficients = coefficients, reliable = as.logical(table$reliable), text = text),
    class = "summary.privreg"
  )
}

print.summary.privreg <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

coef.privreg <- function(object, ...) {
  table <- table_of(object)
  stats::setNames(as.numeric(table$estimate), table$term)
}

vcov.privreg <- function(object, ...) {
  out <- do.call(rbind, reticulate::py_to_r(ask(object$results$cov_params()$to_numpy()$tolist())))
  dimnames(out) <- rep(list(names(coef(object))), 2)
  out
}

confint.privreg <- function(object, parm, level = 0.95, ...) {
  table <- table_of(object, level)
  out <- as.matrix(table[c("conf_low", "conf_high")])
  ends <- c((1 - level) / 2, 1 - (1 - level) / 2)
  dimnames(out) <- list(table$term, paste(format(100 * ends, trim = TRUE, digits = 3), "%"))
  reliable <- stats::setNames(as.logical(table$reliable), table$term)
  rows <- if (missing(parm)) table$term else parm
  structure(out[rows, , drop = FALSE], reliable = reliable[rows], class = c("confint.privreg", "matrix", "array"))
}

print.confint.privreg <- function(x, ...) {
  reliable <- attr(x, "reliable")
  out <- matrix(x, nrow(x), dimnames = dimnames(x))
  rownames(out) <- marked(rownames(out), reliable)
  print(out, ...)
  cat(note_of(reliable))
  invisible(x)
}

nobs.privreg <- function(object, ...) as.integer(reticulate::py_to_r(object$results$nobs))

formula.privreg <- function(x, ...) {
  if (!is.null(x$formula)) return(stats::as.formula(x$formula, env = parent.frame()))
  text <- reticulate::py_to_r(x$results$model$formula)
  if (is.null(text)) stop("these results are of arrays and have no formula.", call. = FALSE)
  stats::as.formula(as_in_r(text), env = parent.frame())
}

family.privreg <- function(object, ...) {
  link <- reticulate::py_to_r(object$results$family$link)
  structure(list(family = reticulate::py_to_r(object$results$family$name), link = link), class = "family")
}

predict.privreg <- function(object, newdata, type = c("response", "link", "class"), se.fit = FALSE,
                            interval = c("none", "confidence"), level = 0.95, ...) {
  type <- match.arg(type)
  interval <- match.arg(interval)
  if (missing(newdata)) stop("give newdata: rows of the fit are private, and results hold none.", call. = FALSE)
  new <- to_python(newdata)
  if (!se.fit && interval == "none") {
    which <- c(response = "mean", link = "linear", class = "class")[[type]]
    out <- ask(object$results$predict(new, which = which))
    if (reticulate::py_has_attr(out, "columns")) return(frame(out))
    return(stats::setNames(vector_of(out), rownames(newdata)))
  }
  if (type != "response") stop("standard errors are those of type = \"response\".", call. = FALSE)
  found <- frame(ask(object$results$get_prediction(new)$summary_frame(alpha = 1 - level)))
  fit <- if (interval == "none") found$mean else {
    cbind(fit = found$mean, lwr = found$mean_ci_lower, upr = found$mean_ci_upper)
  }
  if (se.fit) list(fit = fit, se.fit = found$mean_se) else fit
}

anova.privreg <- function(object, ...) {
  others <- list(...)
  if (length(others)) {
    stop("two private fits have noise of their own; anova(large) tests each term within one.", call. = FALSE)
  }
  table <- ask(object$results$anova())
  out <- frame(table)
  rownames(out) <- as_in_r(vector_of(table$index))
  reliable <- as.logical(out$reliable)
  out <- out[c("df", "chi2", "PR(>F)")]
  names(out) <- c("Df", "Chisq", "Pr(>Chisq)")
  doubtful <- rownames(out)[!reliable]
  heading <- "Wald tests of terms, each given all others\n"
  if (length(doubtful)) {
    heading <- paste0(heading, "Don't rely on ", paste(doubtful, collapse = ", "), ": summary() says why.\n")
  }
  structure(out, heading = heading, class = c("anova", "data.frame"))
}

private <- function(what, instead) {
  stop(what, " would need the rows, which nobody sees; ", instead, call. = FALSE)
}

residuals.privreg <- function(object, ...) private("residuals", "fit with fit = list(measures = 0.05) for measures of fit.")
fitted.privreg <- function(object, ...) private("fitted values", "predict(object, newdata) has those of public rows.")
deviance.privreg <- function(object, ...) private("a deviance", "anova(object) has tests, and selection is by select() in Python.")
logLik.privreg <- function(object, ...) private("a likelihood", "anova(object) has tests, and selection is by select() in Python.")

plot.privreg <- function(x, level = 0.95, intercept = FALSE, ...) {
  table <- table_of(x, level)
  if (!intercept) table <- table[!grepl("(^|:)\\(Intercept\\)$", table$term), ]
  at <- rev(seq_len(nrow(table)))
  old <- par(mar = c(5, max(nchar(table$term)) * 0.5 + 2, 2, 1))
  on.exit(par(old))
  plot(range(0, table$conf_low, table$conf_high), c(0.5, nrow(table) + 0.5), type = "n", yaxt = "n", xlab = "coefficient",
       ylab = "", ...)
  abline(v = 0, col = "grey60")
  segments(table$conf_low, at, table$conf_high, at)
  points(table$estimate, at, pch = ifelse(as.logical(table$reliable), 19, 1))
  axis(2, at, table$term, las = 1)
  title(sub = reticulate::py_to_r(x$results$privacy$headline), cex.sub = 0.8, adj = 1)
  invisible(x)
}

# broom's tables -------------------------------------------------------------------------------------------

tidy.privreg <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  table <- table_of(x, conf.level, exponentiate)
  out <- data.frame(term = table$term, estimate = table$estimate, std.error = table$std_error,
                    statistic = table$statistic, p.value = table$p_value)
  if (conf.int) out <- cbind(out, conf.low = table$conf_low, conf.high = table$conf_high)
  cbind(out, reliable = as.logical(table$reliable))
}

glance.privreg <- function(x, ...) {
  out <- frame(x$results$glance())
  names(out) <- gsub("_", ".", names(out), fixed = TRUE)
  out
}

# Means by emmeans -----------------------------------------------------------------------------------------

# Levels of the factors, as they were declared: labels of R's factors are texts.
declared <- function(object) {
  schema <- reticulate::py_get_attr(object$results, "_fit")$design$schema
  lapply(reticulate::py_to_r(reticulate::import_builtins(convert = FALSE)$dict(schema$levels)), as.list)
}

# Rows at the ends of numbers' bounds beside those at the middle: emtrends() takes its step from the range, and three
# values, not two, keep emmeans() from taking a number for a factor. The means stay.
around <- function(grid, object) {
  schema <- reticulate::py_get_attr(object$results, "_fit")$design$schema
  bounds <- reticulate::py_to_r(reticulate::import_builtins(convert = FALSE)$dict(schema$bounds))
  ends <- lapply(c(-1, 0, 1), function(side) {
    for (name in intersect(names(bounds), names(grid))) {
      if (is.numeric(grid[[name]])) grid[[name]] <- grid[[name]] + side * diff(unlist(bounds[[name]])) / 2
    }
    grid
  })
  do.call(rbind, ends)
}

recover_data.privreg <- function(object, ...) {
  grid <- around(frame(ask(object$results$reference_grid())), object)
  levels <- declared(object)
  for (name in intersect(names(levels), names(grid))) {
    grid[[name]] <- factor(as.character(grid[[name]]), levels = vapply(levels[[name]], as.character, ""))
  }
  names <- names(grid)
  terms <- stats::terms(stats::reformulate(if (length(names)) names else "1"))
  emmeans::recover_data(call("privreg", data = quote(grid)), terms, NULL, data = grid)
}

emm_basis.privreg <- function(object, trms, xlev, grid, ...) {
  df <- reticulate::py_to_r(object$results$df_resid_inference)
  if (is.nan(df)) stop("emmeans needs a normal or t law; fit with the default inference.", call. = FALSE)
  table <- table_of(object)
  warn_of(table$term, table$reliable)
  levels <- declared(object)
  rows <- grid
  for (name in intersect(names(levels), names(rows))) {
    known <- levels[[name]]
    at <- match(as.character(rows[[name]]), vapply(known, as.character, ""))
    rows[[name]] <- unlist(known[at])
  }
  X <- as.matrix(frame(ask(object$results$design_matrix(to_python(as.data.frame(rows))))))
  link <- reticulate::py_to_r(object$results$family$link)
  misc <- switch(link,
    logit = list(tran = "logit", inv.lbl = "prob", estName = "emmean"),
    log = list(tran = "log", inv.lbl = "rate", estName = "emmean"),
    list(estName = "emmean")
  )
  list(X = X, bhat = unname(coef(object)), nbasis = matrix(NA), V = unname(vcov(object)),
       dffun = function(k, dfargs) dfargs$df, dfargs = list(df = df), misc = misc)
}
