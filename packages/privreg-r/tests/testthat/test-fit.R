skip_if_not(reticulate::py_module_available("privreg"), "Python's privreg is not installed")

made <- function(n = 4000) {
  set.seed(1)
  g <- sample(c("a", "b", "c"), n, TRUE)
  x <- runif(n)
  data.frame(y = 1 + 2 * x + (g == "b") + rnorm(n), x = x, g = g, yes = as.integer(runif(n) < plogis(x - 0.5)))
}

fitted_model <- function(formula = y ~ x + g, ...) {
  privreg(formula, made(), ..., mu = 1, trust = "two_collectors", fit = list(seed = 1L),
          bounds = list(y = c(-4, 8), x = c(0, 1)), levels = list(g = c("a", "b", "c")))
}

one <- suppressWarnings(fitted_model())

test_that("estimates are those of Python, near the truth", {
  expect_named(coef(one), c("(Intercept)", "gb", "gc", "x"))
  z <- (coef(one) - c(1, 1, 0, 2)) / sqrt(diag(vcov(one)))
  expect_true(all(abs(z) < 4.5))
  expect_equal(unname(coef(one)), unlist(reticulate::py_to_r(one$results$params$tolist())))
  expect_equal(dim(vcov(one)), c(4L, 4L))
  expect_equal(nobs(one), 4000L)
})

test_that("intervals and tables agree with each other", {
  limits <- confint(one, level = 0.9)
  expect_equal(unname(limits[, 2] - limits[, 1]), unname(2 * qnorm(0.95) * sqrt(diag(vcov(one)))), tolerance = 1e-6)
  expect_equal(rownames(confint(one, "x")), "x")
  table <- summary(one)$coefficients
  expect_equal(unname(table[, 1]), unname(coef(one)))
  expect_output(print(one), "GDP")
  expect_output(print(summary(one)), "Private Online Regression")
})

test_that("predictions are linear in the coefficients", {
  new <- data.frame(x = c(0, 1), g = c("a", "b"))
  expect_equal(unname(predict(one, new)), unname(c(coef(one)[1], sum(coef(one)[c(1, 2, 4)]))))
  both <- predict(one, new, se.fit = TRUE, interval = "confidence")
  expect_equal(dim(both$fit), c(2L, 3L))
  expect_true(all(both$se.fit > 0))
  expect_error(predict(one), "newdata")
})

test_that("what needs rows says so", {
  expect_error(residuals(one), "nobody sees")
  expect_error(fitted(one), "predict")
  expect_error(logLik(one), "anova")
  expect_error(AIC(one), "anova")
  expect_error(deviance(one), "anova")
})

test_that("terms are tested", {
  table <- anova(one)
  expect_equal(rownames(table), c("g", "x"))
  expect_equal(table$Df, c(2, 1))
  expect_true(all(table[["Pr(>Chisq)"]] < 0.01))
})

test_that("errors of Python are R's, by their message alone", {
  expect_error(privreg(y ~ x, made(), mu = -1, bounds = list(y = c(0, 1), x = c(0, 1))), "^mu=-1")
  expect_error(privreg(y ~ x, made(), mu = 1), "bounds = list(y = c(low, high))", fixed = TRUE)
  expect_error(privreg(y ~ x, made(), mu = 1), "^formula term")
})

test_that("broom's tables have broom's names", {
  skip_if_not_installed("broom")
  table <- broom::tidy(one, conf.int = TRUE)
  expect_true(all(c("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high") %in% names(table)))
  expect_equal(broom::glance(one)$nobs, 4000)
})

test_that("emmeans averages over the declared grid", {
  skip_if_not_installed("emmeans")
  means <- summary(emmeans::emmeans(one, "g"))
  wanted <- coef(one)["(Intercept)"] + 0.5 * coef(one)["x"] + c(0, coef(one)[c("gb", "gc")])
  expect_equal(means$emmean, unname(wanted), tolerance = 1e-6)
  pairs <- summary(pairs(emmeans::emmeans(one, "g")))
  expect_equal(pairs$estimate[1], unname(-coef(one)["gb"]), tolerance = 1e-6)
})

test_that("a logistic fit has probabilities", {
  yes <- suppressWarnings(fitted_model(yes ~ x + g, family = "logistic"))
  expect_true(all(predict(yes, data.frame(x = 0.5, g = "a")) < 1))
  expect_equal(unname(plogis(predict(yes, data.frame(x = 0.5, g = "a"), type = "link"))),
               unname(predict(yes, data.frame(x = 0.5, g = "a"))))
  expect_equal(family(yes)$link, "logit")
})

test_that("a plot is drawn", {
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  plot(one)
  grDevices::dev.off()
  expect_gt(file.size(file), 1000)
})

test_that("a call that holds the rows is kept without them", {
  rows <- made(2000)
  two <- suppressWarnings(do.call(privreg, list(y ~ x, data = rows, mu = 1, trust = "two_collectors", fit = list(seed = 1),
                                                bounds = list(y = c(-4, 8), x = c(0, 1)))))
  expect_lt(sum(nchar(capture.output(print(two)))), 1000)
  expect_identical(two$call$data, quote(data))
  expect_null(attributes(two$call$formula))
  expect_lt(length(serialize(two$call, NULL)), 2000)
  expect_identical(deparse(one$call$formula), "formula")
  expect_null(environment(one$formula))
})

test_that("messages are without Python's class names", {
  said <- tryCatch(privreg(y ~ x, made(), mu = -1, bounds = list(y = c(0, 1), x = c(0, 1))), error = conditionMessage)
  expect_match(said, "^mu=-1 must")
})

test_that("what should not be relied on is marked, and nothing else", {
  few <- suppressWarnings(privreg(y ~ x, made(300), mu = 0.05, bounds = list(y = c(-4, 8), x = c(0, 1)), fit = list(seed = 1L)))
  expect_false(any(broom::tidy(few)$reliable))
  for (shown in list(few, confint(few), anova(few))) expect_output(print(shown), "on't rely on")
  expect_equal(rownames(confint(few)), names(coef(few)))
  expect_true(all(broom::tidy(one)$reliable))
  for (shown in list(one, confint(one), anova(one))) expect_false(any(grepl("rely", capture.output(print(shown)))))
  skip_if_not_installed("emmeans")
  expect_warning(emmeans::emmeans(few, ~1), "rely on")
  expect_no_warning(emmeans::emmeans(one, "g"))
})

test_that("families of R's are privreg's, or say what to give", {
  options <- list(yes ~ x, made(), mu = 1, trust = "two_collectors", fit = list(seed = 1L), bounds = list(x = c(0, 1)))
  fits <- lapply(list("logistic", "binomial", binomial, binomial()), function(f) {
    coef(suppressWarnings(do.call(privreg, c(options, list(family = f)))))
  })
  for (fit in fits) expect_equal(fit, fits[[1]])
  wanted <- list(poisson = "y_max", quasi = "huber", quasipoisson = "y_max", Gamma = "log")
  for (name in names(wanted)) {
    for (f in list(name, get(name))) expect_error(do.call(privreg, c(options, list(family = f))), wanted[[name]])
  }
  expect_error(do.call(privreg, c(options, list(family = binomial("probit")))), "logit")
  expect_error(do.call(privreg, c(options, list(family = "hubr"))), "Did you mean 'huber'")
})

test_that("powers are Python's, but not in quotes", {
  expect_equal(privreg:::formula_text(y ~ I(x^2) + (a + b)^2), "y ~ I(x**2) + (a + b)**2")
  expect_equal(privreg:::formula_text(y ~ C(g, "a^b")), "y ~ C(g, \"a^b\")")
  curved <- suppressWarnings(fitted_model(y ~ x + I(x^2)))
  expect_length(coef(curved), 3)
  skip_if_not_installed("emmeans")
  slope <- summary(emmeans::emtrends(curved, ~1, "x", delta.var = 1e-6))$x.trend
  expect_equal(slope, unname(coef(curved)["x"] + coef(curved)[grep("I", names(coef(curved)))[2]]), tolerance = 1e-4)
  expect_equal(summary(emmeans::emtrends(one, ~1, "x"))$x.trend, unname(coef(one)["x"]), tolerance = 1e-4)
})

test_that("data sets are data frames", {
  people <- privreg_data("us_insurance", 500)
  expect_s3_class(people, "data.frame")
  expect_equal(nrow(people), 500)
  expect_type(people$age, "integer")
  expect_error(privreg_data("nothing"), "us_insurance")
})

people <- function() {
  rows <- made(2000)
  rows$`body mass` <- rows$x / 2
  rows$black <- factor(rep(0:1, 1000))
  rows$seen <- as.POSIXct("2024-01-01 10:00", tz = "America/New_York") + 3600 * seq_len(2000) %% 500
  rows$day <- as.Date(rows$seen)
  rows
}
bounds <- list(y = c(-4, 8), x = c(0, 1), `body mass` = c(0, 1))
fit_of <- function(formula, data, ..., more = list()) {
  suppressWarnings(privreg(formula, data, ..., mu = 1, trust = "two_collectors", fit = list(seed = 1L), bounds = c(bounds, more),
                           levels = list(black = c("0", "1"), g = c("a", "b", "c"))))
}
released <- function(fit) reticulate::py_to_r(fit$results$privacy$release$number)

test_that("fits of one data frame add up, whatever was done to it, and fits of others don't", {
  rows <- people()
  declared <- bounds
  first <- suppressWarnings(privreg(y ~ x, rows, mu = 1, trust = "two_collectors", fit = list(seed = 1L), bounds = declared,
                                    levels = list(g = c("a", "b", "c"))))
  before <- released(first)
  expect_equal(released(fit_of(y ~ black, rows)), before + 1)
  expect_equal(released(suppressWarnings(update(first, . ~ . + g))), before + 2)
  part <- rows[c("x", "g", "y")]
  expect_equal(released(fit_of(y ~ x + g, transform(part, x = x^2))), before + 3)
  set.seed(2)
  other <- data.frame(id = seq_len(2000), x = runif(2000), y = rnorm(2000), black = rows$black)
  expect_equal(released(fit_of(y ~ x, other)), 1)
  third <- data.frame(id = seq_len(2000), x = runif(2000), y = rnorm(2000))
  expect_equal(released(fit_of(y ~ x, third)), 1)
  both <- data.frame(x = other$x, y = third$y)
  expect_equal(released(fit_of(y ~ x, both)), 2)
  privreg_module()$limit_spending(1.2)
  expect_error(fit_of(y ~ x, rows), "would cost")
  privreg_module()$limit_spending(NULL)
})

test_that("names of people are given too, and hashes stay here", {
  first <- fit_of(y ~ x, people(), dataset = "survey 2026 in R")
  set.seed(3)
  rows <- data.frame(x = runif(2000), y = rnorm(2000))
  expect_equal(released(fit_of(y ~ x, rows, dataset = "survey 2026 in R")), 2)
  said <- reticulate::py_to_r(first$results$privacy$release$dataset)
  expect_match(said, "'survey 2026 in R' and 'data frame [0-9]+ of this R session'")
  marks <- ls(privreg:::held$people)
  file <- tempfile()
  saveRDS(first, file, compress = FALSE)
  bytes <- readBin(file, "raw", file.size(file))
  for (mark in marks) expect_length(grepRaw(mark, bytes, fixed = TRUE), 0)
  expect_lt(file.size(file), 40000)
})

test_that("times and dates are read on their own clock", {
  rows <- people()
  ends <- as.POSIXct(c("2024-01-01", "2024-02-01"), tz = "America/New_York")
  expect_identical(privreg:::plain(ends[1] + 1), "2024-01-01 00:00:01")
  by_time <- fit_of(y ~ seen, rows, more = list(seen = ends))
  expect_equal(coef(fit_of(y ~ seen, rows, more = list(seen = c("2024-01-01", "2024-02-01")))), coef(by_time))
  expect_equal(coef(fit_of(y ~ seen, rows, more = list(seen = as.POSIXlt(ends)))), coef(by_time))
  expect_named(coef(fit_of(y ~ day, rows, more = list(day = as.Date(c("2024-01-01", "2024-02-01"))))), c("(Intercept)", "day"))
  expect_length(predict(by_time, rows[1:3, ]), 3)
})

test_that("names are R's, in fits, tables and messages", {
  rows <- people()
  fit <- fit_of(y ~ x * black + `body mass` + I(x^2) + log(x + 1), rows)
  expect_setequal(names(coef(fit)), c("(Intercept)", "black1", "x", "x:black1", "`body mass`", "I(x^2)", "log(x + 1)"))
  expect_named(coef(fit_of(y ~ x + factor(g), rows)), c("(Intercept)", "factor(g)b", "factor(g)c", "x"))
  shown <- capture.output(print(summary(fit)))
  for (name in names(coef(fit))) expect_true(any(startsWith(shown, paste0(name, " "))), label = name)
  expect_false(any(grepl("T\\.|Q\\(|np\\.", shown)))
  expect_true(any(grepl("*** NOT PRIVATE AS RUN", shown, fixed = TRUE)))
  expect_true("`body mass`" %in% rownames(anova(fit)))
  said <- function(formula, ...) {
    tryCatch(privreg(formula, rows, mu = 1, bounds = list(y = c(-4, 8), ...)), error = conditionMessage)
  }
  expect_match(said(y ~ `body mass`), "list(`body mass` = c(low, high))", fixed = TRUE)
  expect_match(said(y ~ factor(x), x = c(0, 1)), "'factor(x)' uses 'x' as a factor, which needs its levels. Give levels = list(x", fixed = TRUE)
  for (formula in c(y ~ `body mass`, y ~ factor(x), y ~ black, y ~ log(x), y ~ poly(x, 2))) {
    expect_false(grepl("\\bC\\(|Q\\(|np\\.|\\*\\*|\\{|,\\)|None|True", said(formula)), label = said(formula))
  }
})

test_that("splines have public knots", {
  rows <- people()
  for (formula in c(y ~ splines::bs(x, df = 4), y ~ bs(x, 4), y ~ bs(x), y ~ bs(x, knots = 0.5))) {
    expect_error(fit_of(formula, rows), "quantiles of the rows.*Boundary.knots")
  }
  expect_error(fit_of(y ~ splines::ns(x, 3), rows), "bs(x, knots", fixed = TRUE)
  curved <- fit_of(y ~ splines::bs(x, knots = c(0.3, 0.6), Boundary.knots = c(0, 1)), rows)
  expect_length(coef(curved), 6)
})

test_that("a saved fit is usable in another session", {
  fit <- fit_of(y ~ x * black, people())
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf("library(privreg); f <- readRDS('%s'); cat(sprintf('%%.9f', coef(f)), '\\n'); print(formula(f))", file)
  said <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE)
  expect_equal(scan(text = said[length(said) - 1], quiet = TRUE), unname(coef(fit)), tolerance = 1e-6)
  expect_equal(said[length(said)], "y ~ x * black")
  bad <- readRDS(file)
  bad$saved <- as.raw(1:100)
  bad$here <- new.env()
  bad$here$results <- NULL
  expect_error(coef(bad), "damaged or was not saved by privreg")
})

test_that("silos keep their rows apart, and each silo's people add up", {
  rows <- made(3000)
  parts <- list(north = rows[1:1800, ], south = rows[1801:3000, ])
  fit <- function(data, ...) {
    suppressWarnings(privreg(y ~ x + g, data, ..., mu = 1, trust = "silos", fit = list(seed = 1L),
                             bounds = list(y = c(-4, 8), x = c(0, 1)), levels = list(g = c("a", "b", "c"))))
  }
  first <- fit(parts)
  expect_match(summary(first)$text, "north 1,800, south 1,200", fixed = TRUE)
  expect_lt(sum(nchar(capture.output(print(first$call)))), 1000)
  before <- released(first)
  expect_equal(released(fit(parts)), before + 1)
  expect_error(fit(list(north = parts$north, south = parts$south["x"])), "silo 'south'")
  expect_error(fit(rows), "mapping of silos' names")
})
