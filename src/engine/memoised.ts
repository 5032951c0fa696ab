/** Answers the same question only once. */
export function memoised<Question, Answer extends NonNullable<unknown>>(
  answer: (question: Question) => Answer,
): (question: Question) => Answer {
  const known = new Map<Question, Answer>();
  return (question) => {
    let found = known.get(question);
    if (found === undefined) {
      found = answer(question);
      known.set(question, found);
    }
    return found;
  };
}
