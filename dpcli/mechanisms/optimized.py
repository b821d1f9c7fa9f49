def fitted(domain, options):
    return [[] for _ in domain.names]
