library(testthat)
library(privreg)
test_check("privreg")
