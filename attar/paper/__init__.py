"""The paper's experiment, apart from everything else: cloze questions, networks, comparison, recall, Table 1.

Read it in this order:

| module                   | what                                                                              |
|--------------------------|-----------------------------------------------------------------------------------|
| options                  | what can be chosen                                                                |
| words                    | which words of a text are names; which ids words have                             |
| cloze, build             | documents with `@entityN` for names and questions with a blank: read, built    |
| sets, batches            | a set's splits as flat arrays, questions drawn from them, batches of both         |
| network                  | documents into memories, questions into queries, scores of names; the saved files |
| train, compare           | one network and its accuracy, mechanisms under the same conditions                |
| recall                   | how many pairs a memory of so many bytes recalls                                  |
| table1                   | the costs of the paper's Table 1, predicted and measured                          |
"""
