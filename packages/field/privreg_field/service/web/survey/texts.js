/**
 * Words of the page. A plan may have others, in `texts` of study.yaml: by these names, with these places in braces.
 *
 * A name that ends in Sums is said in its namesake's place where there are two collectors. There every text may have the places
 * {nameA} and {nameB}, {one} and {other} (names with addresses), {contactA} and {contactB}, and {host}, this page's server.
 * @module
 */

/** @type {Record<string, string>} */
export const ENGLISH = {
  language: "en",
  direction: "ltr",
  heading: "A study asks you",
  said: "The study says:",
  contact: "Contact: {contact}. Open until {closes}.",
  privacy: "What becomes of your answers",
  stays:
    "Your answers stay in this browser. It sends one report, once: a few numbers made of them, with random noise added. The "
    + "noise hides your answers in part; how well is said below.",
  staysSums:
    "Your answers stay in this browser. It makes a few numbers of them, and splits each into two parts, which are random and add "
    + "up to it. One part is sent to {one}, the other to {other}, each sealed so that nobody else can read it. Neither of them sees "
    + "an answer of yours, or a number made of one. Both together could, if they broke their word. Each adds up its parts of "
    + "everybody's numbers, and adds random noise: these sums alone are made public. The noise hides your answers in part; how "
    + "well is said below.",
  contacts: "Questions to them: {nameA}, {contactA}; {nameB}, {contactB}.",
  guess:
    "Suppose somebody knows that your answers are one of two possibilities. From your report they guess the right one at most "
    + "{guess} times of 100. A coin guesses it 50 times.",
  guessSums:
    "Suppose somebody, one of these two included, knows that your answers are one of two possibilities. From all that they see they "
    + "guess the right one at most {guess} times of 100. A coin guesses it 50 times.",
  guarantee: "In the field's terms: μ = {mu}, Gaussian differential privacy.",
  year:
    "This would be study {studies} that this browser answers this year. From all of them together somebody guesses right at most "
    + "{all} times of 100.",
  yearSums:
    "This would be study {studies} that this browser answers this year. From all of them together somebody, one operator of each "
    + "included, guesses right at most {all} times of 100.",
  translated: "The study has written words of this page anew. In the page's first words:",
  picture: "Right guesses of 100, at best: a coin toss 50, who sees your report {guess}, who sees your answers 100.",
  pictureSums:
    "Right guesses of 100, at best: a coin toss 50, one of these two, or anybody else, {guess}, both of them together up to 100.",
  coin: "50: a coin toss",
  report: "{guess}: who sees your report",
  reportSums: "{guess}: one of these two, or anybody else",
  answers: "100: who sees your answers",
  answersSums: "up to 100: both together",
  limitsTitle: "What is not hidden",
  limits:
    "The study learns that you took part, and your internet address when the report is sent. The program of this page "
    + "comes from the study's server: a server that cheats could send another. If this browser's memory is deleted, or you "
    + "answer again elsewhere, two reports tell more about you than one.",
  limitsSums:
    "{nameA} and {nameB} both learn that you took part, and your internet address when the report is sent. The program of this "
    + "page comes from {host}: a server that cheats could send another, which sends your answers away. If this browser's memory is "
    + "deleted, or you answer again elsewhere, two reports tell more about you than one.",
  refuseNote: "The study asks only who can answer everything: that you don't answer shows, and why can be guessed.",
  questions: "Your answers",
  range: "A number from {low} to {high}.",
  atLeast: "A number, {low} or more.",
  atMost: "A number, {high} or less.",
  any: "A number.",
  outside: "Not allowed. {range} If you press the button again, your answer counts as {counted}.",
  countsAs: "{typed} (not allowed, so it counts as {counted})",
  none: "No answer",
  yes: "yes",
  no: "no",
  consent: "I agree that this browser makes one report of my answers and sends it.",
  consentSums:
    "I agree that this browser makes one report of my answers, and sends one part of it to {nameA} and the other to {nameB}.",
  check: "Check my answers",
  next: "Next you see your answers once more. Nothing is made or sent before that.",
  reviewTitle: "Are these your answers?",
  back: "Back to the questions",
  make: "Make my report",
  nothingYet:
    "Your report is made once, of these answers. You see it before anything is sent; then you can send it or not, but not "
    + "change it.",
  making: "Your report is being made …",
  wrongTitle: "Please look at the answers marked above.",
  wrongNumber: "{ask} Write a number, in digits.",
  wrongMissing: "{ask} An answer is needed.",
  wrongConsent: "Without your consent nothing is computed or sent.",
  open: "No answer yet.",
  blank:
    "You left a question open. Then your whole report is noise, and your other answers don't count either. Press the button "
    + "again if that is what you want.",
  blankSums:
    "You left a question open. Then your whole report is zeros, and your other answers don't count either. Press the button "
    + "again if that is what you want.",
  blankPart:
    "You left a question open. Each analysis that needs it then gets nothing from you. Press the button again if that is what you want.",
  kept: "What you enter is remembered by this browser until your report is made. Whoever uses it can see it.",
  forget: "Delete what I entered",
  switch: "Language",
  previewTitle: "What leaves this browser",
  yours: "Your answers stay here",
  question: "Question",
  answer: "Your answer",
  sent: "These numbers are sent",
  sentNote:
    "In each number at most {radius} can come from your answers; the noise added to it is about {noise}, up or down. What was "
    + "said of guesses holds for all numbers together. They were stored in this browser, without your answers, so that no second report can be made.",
  sentSums: "Two sealed parts are sent",
  sentNoteSums:
    "One goes to {one}, the other to {other}. Each is random for whoever opens it, and both are stored in this browser, without your "
    + "answers, so that no second report can be made.",
  afresh:
    "Your report came too late: {nameA} and {nameB} have both deleted their part of it, and neither was added up. You can answer once more; as nothing of the "
    + "first was made public, it costs you no more.",
  bytes: "Exactly these bytes",
  waitingNote: "This browser has made your report before, and it has not arrived yet. The answers were not kept.",
  send: "Send these numbers",
  sendSums: "Send both parts",
  orNot: "Close this page if you don't want to send them.",
  sending: "Sending …",
  offline:
    "No connection to the study's server. Your report is stored in this browser and is sent as soon as there is one. You may "
    + "close this page, and open your link again later.",
  offlineSums:
    "No connection to one of the two servers. Your report is stored in this browser and is sent as soon as there is one. You may "
    + "close this page, and open your link again later.",
  busy: "The study's server is busy. The same numbers are sent again in a while.",
  busySums: "One of the two servers is busy. The same parts are sent again in a while.",
  later: "Not sent yet. Your report is stored in this browser: open your link again later.",
  doneTitle: "Thank you",
  done: "Your report has arrived.",
  doneSums: "Both parts of your report have arrived, one at {nameA} and one at {nameB}.",
  before: "This browser has answered this study; everybody answers once.",
  receipt: "Your receipt",
  receiptSums: "Your receipts",
  receiptNote: "It is the fingerprint (SHA-256) of the bytes that were sent, and tells nothing of your answers.",
  receiptNoteSums:
    "They are the fingerprints (SHA-256) of the two parts that were sent, to {nameA} and to {nameB}, and tell nothing of your "
    + "answers.",
  refusedTitle: "You can't answer here",
  refused: "Nothing was sent. The reason: {reason}",
  again: "Try again",
};
