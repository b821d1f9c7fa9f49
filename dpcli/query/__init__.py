"""Questions: product-form queries over a domain, how they are written, and workloads of them."""
