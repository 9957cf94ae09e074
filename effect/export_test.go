package effect

var ClassOfStatus = classOfStatus
