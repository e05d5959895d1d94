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
  expect_named(coef(one), c("Intercept", "g[T.b]", "g[T.c]", "x"))
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
  wanted <- coef(one)["Intercept"] + 0.5 * coef(one)["x"] + c(0, coef(one)[c("g[T.b]", "g[T.c]")])
  expect_equal(means$emmean, unname(wanted), tolerance = 1e-6)
  pairs <- summary(pairs(emmeans::emmeans(one, "g")))
  expect_equal(pairs$estimate[1], unname(-coef(one)["g[T.b]"]), tolerance = 1e-6)
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
  wanted <- list(poisson = "y_max", gaussian = "huber", quasi = "huber", quasipoisson = "y_max", Gamma = "log")
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
  slope <- summary(emmeans::emtrends(curved, ~1, "x"))$x.trend
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
