# docker build -t mailctl . (docs/guide/docker.md). The first stage packs the program as `npm pack` does; compilers and sources stay there.
FROM node:24-bookworm-slim AS pack
RUN apt-get update && apt-get install -y --no-install-recommends python3 make g++
WORKDIR /src
COPY . .
RUN npm ci && npm pack && npm install --global --prefix /opt/mailctl ./mailctl-*.tgz

FROM node:24-bookworm-slim
ENV NODE_ENV=production MAILCTL_DATA_DIR=/data MAILCTL_HTTP_LISTEN=0.0.0.0:8125
ENV PATH=/opt/mailctl/bin:/usr/local/bin:/usr/bin:/bin
# Without them glibc keeps what large bodies and mails took (docs/internals/performance.md, Memory).
ENV MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=1048576 MALLOC_TRIM_THRESHOLD_=4194304
COPY --from=pack /opt/mailctl /opt/mailctl
RUN install -d -m 0700 -o 10001 -g 10001 /data
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8125
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:8125/healthz').then(reply => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["mailctl"]
CMD ["serve"]
