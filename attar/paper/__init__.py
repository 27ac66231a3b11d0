"""The paper's experiment, apart from everything else: cloze questions, a GRU network, training, comparison, Table 1.

Read it in this order:

| module                          | what                                                                           |
|---------------------------------|--------------------------------------------------------------------------------|
| names, vocabulary               | which words are names, which ids the others have                               |
| cloze, cnn, build               | documents with `@entityN` for names and questions with a blank: read and built |
| encoded, batches                | a split as flat arrays, questions drawn from it, batches of both               |
| gru, encoders, network          | documents into memories, questions into queries, scores of names               |
| train, evaluate, compare        | one network; its accuracy; mechanisms under the same conditions                |
| table1, table1_report           | the costs of the paper's Table 1, measured                                     |
"""
