"""QuestionsVI: few yes/no questions per user, chosen from earlier releases."""
