"""https://django-ratelimit.readthedocs.io: `ratelimit`, counters in windows of the clock, whose beginning depends on the key.

https://www.django-rest-framework.org/api-guide/throttling: `throttle`, the times of the requests of a key, in memory.
"""

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from listen import SETTINGS, wsgi

settings.configure(
    SECRET_KEY="bench",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    SILENCED_SYSTEM_CHECKS=["django_ratelimit.E003", "django_ratelimit.W001"],
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None},
)
django.setup()

if "ratelimit" in SETTINGS:
    from django_ratelimit.core import is_ratelimited

    def root(request):
        limited = is_ratelimited(request, group="all", key="ip", rate=SETTINGS["ratelimit"], increment=True)
        return HttpResponse("ok", status=429 if limited else 200)

else:
    from rest_framework.decorators import api_view, throttle_classes
    from rest_framework.response import Response
    from rest_framework.throttling import SimpleRateThrottle

    class ByAddress(SimpleRateThrottle):
        rate = SETTINGS["throttle"]

        def get_cache_key(self, request, view):
            return self.get_ident(request)

    @api_view(["GET"])
    @throttle_classes([ByAddress])
    def root(request):
        return Response("ok")


urlpatterns = [path("", root)]
wsgi(get_wsgi_application())
