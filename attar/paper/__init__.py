"""The paper's experiment, apart from everything else: cloze questions, a GRU network, training, comparison, Table 1.

Read it in this order:

| module                        | what                                                                           |
|-------------------------------|--------------------------------------------------------------------------------|
| options, vocabulary, names    | what can be chosen; which ids words have; which words are names                |
| cloze, cnn, build             | documents with `@entityN` for names and questions with a blank: read and built |
| encoded, sets, batches        | a split as flat arrays, questions drawn from it, batches of both               |
| encoders, gru_kernel, network | documents into memories, questions into queries, scores of names               |
| train, saved, evaluate        | one network, its folder, its accuracy                                          |
| compare, report               | mechanisms under the same conditions                                           |
| table1 …, timing, machine     | the costs of the paper's Table 1, predicted and measured                       |
"""
