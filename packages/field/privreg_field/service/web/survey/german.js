/**
 * The page in German; see `texts.js`.
 * @module
 */

/** German words of the page. @type {Record<string, string>} */
export const GERMAN = {
  language: "de",
  direction: "ltr",
  heading: "Eine Studie fragt Sie",
  said: "Die Studie sagt:",
  contact: "Kontakt: {contact}. Offen bis {closes}.",
  privacy: "Was aus Ihren Antworten wird",
  stays:
    "Ihre Antworten bleiben in diesem Browser. Er sendet einen Bericht, einmal: einige Zahlen, die aus ihnen gebildet werden, mit "
    + "zufälligem Rauschen. Das Rauschen verdeckt Ihre Antworten zum Teil; wie gut, steht unten.",
  staysSums:
    "Ihre Antworten bleiben in diesem Browser. Er bildet aus ihnen einige Zahlen und zerlegt jede in zwei zufällige Teile, die sich zu "
    + "ihr ergänzen. Ein Teil geht an {one}, der andere an {other}, jeder so versiegelt, dass niemand sonst ihn lesen kann. Keiner von "
    + "beiden sieht eine Antwort von Ihnen oder eine daraus gebildete Zahl. Beide zusammen könnten es, wenn sie ihr Wort brächen. Jeder "
    + "addiert seine Teile der Zahlen aller Leute und fügt zufälliges Rauschen hinzu: Nur diese Summen werden veröffentlicht. Das "
    + "Rauschen verdeckt Ihre Antworten zum Teil; wie gut, steht unten.",
  contacts: "Fragen an sie: {nameA}, {contactA}; {nameB}, {contactB}.",
  guess:
    "Angenommen, jemand weiß, dass Ihre Antworten eine von zwei Möglichkeiten sind. Aus Ihrem Bericht errät er die richtige höchstens "
    + "{guess} von 100 Malen. Eine Münze errät sie 50 Mal.",
  guessSums:
    "Angenommen, jemand, auch einer von diesen beiden, weiß, dass Ihre Antworten eine von zwei Möglichkeiten sind. Aus allem, was er "
    + "sieht, errät er die richtige höchstens {guess} von 100 Malen. Eine Münze errät sie 50 Mal.",
  guarantee: "In der Fachsprache: μ = {mu}, Gaußsche Differential Privacy.",
  year:
    "Es wäre die {studies}. Studie, der dieser Browser in diesem Jahr antwortet. Aus allen zusammen rät jemand höchstens {all} von 100 "
    + "Malen richtig.",
  yearSums:
    "Es wäre die {studies}. Studie, der dieser Browser in diesem Jahr antwortet. Aus allen zusammen rät jemand, auch ein Betreiber von "
    + "jeder, höchstens {all} von 100 Malen richtig.",
  translated: "Die Studie hat Wörter dieser Seite neu geschrieben. In den ersten Worten der Seite:",
  picture: "Richtig geraten von 100, bestenfalls: ein Münzwurf 50, wer Ihren Bericht sieht {guess}, wer Ihre Antworten sieht 100.",
  pictureSums: "Richtig geraten von 100, bestenfalls: ein Münzwurf 50, einer der beiden oder sonst jemand {guess}, beide zusammen bis zu 100.",
  coin: "50: ein Münzwurf",
  report: "{guess}: wer Ihren Bericht sieht",
  reportSums: "{guess}: einer der beiden oder sonst jemand",
  answers: "100: wer Ihre Antworten sieht",
  answersSums: "bis zu 100: beide zusammen",
  limitsTitle: "Was nicht verborgen ist",
  limits:
    "Die Studie erfährt, dass Sie teilgenommen haben, und Ihre Internetadresse, wenn der Bericht gesendet wird. Das Programm dieser Seite "
    + "kommt vom Server der Studie: Ein Server, der betrügt, könnte ein anderes senden. Wird der Speicher dieses Browsers gelöscht oder "
    + "antworten Sie anderswo noch einmal, sagen zwei Berichte mehr über Sie als einer.",
  limitsSums:
    "{nameA} und {nameB} erfahren beide, dass Sie teilgenommen haben, und Ihre Internetadresse, wenn der Bericht gesendet wird. Das Programm "
    + "dieser Seite kommt von {host}: Ein Server, der betrügt, könnte ein anderes senden, das Ihre Antworten weitergibt. Wird der Speicher "
    + "dieses Browsers gelöscht oder antworten Sie anderswo noch einmal, sagen zwei Berichte mehr über Sie als einer.",
  refuseNote: "Die Studie fragt nur, wer alles beantworten kann: Dass Sie nicht antworten, sieht man, und warum, lässt sich erraten.",
  questions: "Ihre Antworten",
  range: "Eine Zahl von {low} bis {high}.",
  atLeast: "Eine Zahl, {low} oder mehr.",
  atMost: "Eine Zahl, {high} oder weniger.",
  any: "Eine Zahl.",
  outside: "Nicht erlaubt. {range} Wenn Sie noch einmal auf den Knopf drücken, zählt Ihre Antwort als {counted}.",
  countsAs: "{typed} (nicht erlaubt, zählt daher als {counted})",
  none: "Keine Antwort",
  yes: "ja",
  no: "nein",
  consent: "Ich bin einverstanden, dass dieser Browser einen Bericht aus meinen Antworten bildet und sendet.",
  consentSums:
    "Ich bin einverstanden, dass dieser Browser einen Bericht aus meinen Antworten bildet und einen Teil an {nameA}, den anderen an {nameB} sendet.",
  check: "Meine Antworten prüfen",
  next: "Als Nächstes sehen Sie Ihre Antworten noch einmal. Vorher wird nichts gebildet oder gesendet.",
  reviewTitle: "Sind das Ihre Antworten?",
  back: "Zurück zu den Fragen",
  make: "Meinen Bericht bilden",
  nothingYet:
    "Ihr Bericht wird einmal gebildet, aus diesen Antworten. Sie sehen ihn, bevor etwas gesendet wird; dann können Sie ihn senden oder "
    + "nicht, aber nicht ändern.",
  making: "Ihr Bericht wird gebildet …",
  wrongTitle: "Bitte sehen Sie sich die oben markierten Antworten an.",
  wrongNumber: "{ask} Schreiben Sie eine Zahl, in Ziffern.",
  wrongMissing: "{ask} Hier ist eine Antwort nötig.",
  wrongConsent: "Ohne Ihr Einverständnis wird nichts berechnet oder gesendet.",
  open: "Noch keine Antwort.",
  blank:
    "Sie haben eine Frage offen gelassen. Dann ist Ihr ganzer Bericht Rauschen, und auch Ihre anderen Antworten zählen nicht. Drücken Sie "
    + "noch einmal auf den Knopf, wenn Sie das wollen.",
  blankSums:
    "Sie haben eine Frage offen gelassen. Dann besteht Ihr ganzer Bericht aus Nullen, und auch Ihre anderen Antworten zählen nicht. Drücken "
    + "Sie noch einmal auf den Knopf, wenn Sie das wollen.",
  blankPart:
    "Sie haben eine Frage offen gelassen. Jede Auswertung, die sie braucht, bekommt dann nichts von Ihnen. Drücken Sie noch einmal auf "
    + "den Knopf, wenn Sie das wollen.",
  kept: "Was Sie eintragen, merkt sich dieser Browser, bis Ihr Bericht gebildet ist. Wer ihn benutzt, kann es sehen.",
  forget: "Eingaben löschen",
  switch: "Sprache",
  previewTitle: "Was diesen Browser verlässt",
  yours: "Ihre Antworten bleiben hier",
  question: "Frage",
  answer: "Ihre Antwort",
  sent: "Diese Zahlen werden gesendet",
  sentNote:
    "In jeder Zahl kann höchstens {radius} von Ihren Antworten kommen; das hinzugefügte Rauschen beträgt etwa {noise}, nach oben oder unten. "
    + "Was über das Raten gesagt wurde, gilt für alle Zahlen zusammen. Sie wurden in diesem Browser gespeichert, ohne Ihre Antworten, damit "
    + "kein zweiter Bericht gebildet werden kann.",
  sentSums: "Versiegelte Teile werden gesendet",
  sentNoteSums:
    "Ein Teil geht an {one}, der andere an {other}. Jeder ist zufällig für den, der ihn öffnet, und beide sind in diesem Browser gespeichert, "
    + "ohne Ihre Antworten, damit kein zweiter Bericht gebildet werden kann.",
  afresh:
    "Ihr Bericht kam zu spät: {nameA} und {nameB} haben beide ihren Teil gelöscht, und keiner wurde addiert. Sie können noch einmal antworten; "
    + "da vom ersten nichts veröffentlicht wurde, kostet es Sie nicht mehr.",
  bytes: "Genau diese Bytes",
  waitingNote: "Dieser Browser hat Ihren Bericht schon gebildet, und er ist noch nicht angekommen. Die Antworten wurden nicht aufgehoben.",
  send: "Diese Zahlen senden",
  sendSums: "Beide Teile senden",
  orNot: "Schließen Sie diese Seite, wenn Sie sie nicht senden wollen.",
  sending: "Wird gesendet …",
  offline:
    "Keine Verbindung zum Server der Studie. Ihr Bericht ist in diesem Browser gespeichert und wird gesendet, sobald es eine gibt. Sie können "
    + "diese Seite schließen und Ihren Link später noch einmal öffnen.",
  offlineSums:
    "Keine Verbindung zu einem der beiden Server. Ihr Bericht ist in diesem Browser gespeichert und wird gesendet, sobald es eine gibt. Sie "
    + "können diese Seite schließen und Ihren Link später noch einmal öffnen.",
  busy: "Der Server der Studie ist beschäftigt. Dieselben Zahlen werden nach einer Weile noch einmal gesendet.",
  busySums: "Einer der beiden Server ist beschäftigt. Dieselben Teile werden nach einer Weile noch einmal gesendet.",
  later: "Noch nicht gesendet. Ihr Bericht ist in diesem Browser gespeichert: Öffnen Sie Ihren Link später noch einmal.",
  doneTitle: "Vielen Dank",
  done: "Ihr Bericht ist angekommen.",
  doneSums: "Beide Teile Ihres Berichts sind angekommen, einer bei {nameA} und einer bei {nameB}.",
  before: "Dieser Browser hat dieser Studie geantwortet; jeder antwortet einmal.",
  receipt: "Ihre Quittung",
  receiptSums: "Ihre Quittungen",
  receiptNote: "Sie ist der Fingerabdruck (SHA-256) der gesendeten Bytes und verrät nichts von Ihren Antworten.",
  receiptNoteSums:
    "Sie sind die Fingerabdrücke (SHA-256) der beiden Teile, die an {nameA} und an {nameB} gesendet wurden, und verraten nichts von Ihren Antworten.",
  refusedTitle: "Sie können hier nicht antworten",
  refused: "Es wurde nichts gesendet. Der Grund: {reason}",
  again: "Noch einmal versuchen",
};
