"""Pages, their files, and the documents about the API. Public, and not part of the OpenAPI document."""

from holdfast.http.contract.endpoint import PUBLIC, Answers, Endpoint, Priority


def _page(name: str, path: str, summary: str, *, priority: Priority = Priority.READ, has_head: bool = True) -> Endpoint:
    return Endpoint(
        name,
        f"GET {path}",
        summary,
        access=PUBLIC,
        priority=priority,
        answers={200: Answers(summary)},
        checks_path=False,
        has_head=has_head,
        is_documented=False,
        is_demo=path.startswith("/demo/"),
    )


FRONT = _page("front", "/", "The sales that are open or upcoming")
FAVICON = _page("favicon", "/favicon.ico", "The icon of all pages")
DOCS = _page("docs", "/docs", "The reference page", priority=Priority.CONSOLE)
OPENAPI = _page("openapi", "/openapi.json", "The OpenAPI document", priority=Priority.CONSOLE)
CONSOLE = _page("console", "/console", "The operator console")
STOREFRONT = _page("storefront", "/s/{sale_id}", "The storefront of a sale")
STORE_CONFIG = _page("store_config", "/store/config.json", "Where the storefront gets its visitor's token")
LOTTERY = _page("lottery", "/lottery/{sale_id}", "Recomputes a draw in the browser")
ASSETS = _page("assets", "/assets/{path:rest}", "Scripts, styles and pictures")
DEMO_IDENTITY = _page("demo_identity", "/demo/identity", "Who visits the demo", has_head=False)
