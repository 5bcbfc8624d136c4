# A confide service. The database, keys and marks are in /data: mount a volume there.
FROM python:3.12-slim AS build
COPY . /src
RUN python -m venv /opt/confide && /opt/confide/bin/pip install --no-cache-dir "/src[service,secure]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home confide && install -d -o confide -m 0700 /data /marks
COPY --from=build /opt/confide /opt/confide
ENV PATH=/opt/confide/bin:$PATH PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=/home/confide/numba
USER confide
WORKDIR /data
VOLUME ["/data", "/marks"]
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/health', timeout=4)"
ENTRYPOINT ["confide"]
CMD ["serve", "--folder", "/data/service", "--marks", "/marks", "--host", "0.0.0.0"]
