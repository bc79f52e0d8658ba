"""The shop: orders, confirmation e-mails, stock imports, reports and a partner that is not always there."""
