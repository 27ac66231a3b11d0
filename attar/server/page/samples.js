// Two sample texts for a library that is empty, and questions to begin with. `attar demo` has the same texts.

export const SAMPLES = {
  letter: `Dear Martha,

thank you for your letter of 3 May. We arrived in Trieste on Tuesday after a journey of eleven hours. Our flat is on
the fourth floor of an old house in Via Rossetti, and the rent is 740 euros a month. The landlady, Signora Bassi, lives
downstairs and keeps two parrots. Paolo starts his work at the shipyard on Monday, and Nina goes to the school next to
the fish market.

Please send the winter coats before October, because the bora blows hard here. You can reach us on the telephone of
Signora Bassi.

With love, Ines`,
  minutes: `Minutes of the allotment society, 12 March.

Present were nine members. The chairman, Mr. Okafor, opened the meeting at 7:30 p.m. in the village hall. The treasurer
reported a balance of 2,310 pounds. It was agreed to buy a second water tank, because the old one leaks. Ms. Lindqvist
will ask three firms for offers. The hedge along Mill Lane will be cut by the council in September. The summer fair
takes place on 21 June, and Mr. Brandt will bring the tents.

The next meeting is on 9 April.`,
};

/** Questions that the samples answer. */
export const SAMPLE_EXAMPLES = [
  "How much is the rent?",
  "When did they arrive in Trieste?",
  "Who is the chairman?",
  "Why do they buy a second water tank?",
];
