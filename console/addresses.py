"""The console's table of addresses where it is all there is: below its prefix in a project."""

from console import urls

urlpatterns = urls.urlpatterns
handler400 = "console.layout.refusals.bad_request"
handler403 = "console.layout.refusals.forbidden"
handler404 = "console.layout.refusals.not_found"
handler500 = "console.layout.refusals.failed"
