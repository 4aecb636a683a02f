package test;

import com.google.gson.Gson;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.envoyproxy.controlplane.cache.v3.SimpleCache;
import io.envoyproxy.controlplane.cache.v3.Snapshot;
import io.envoyproxy.controlplane.server.V3DiscoveryServer;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A control plane of the end-to-end tests: java-control-plane's server and snapshot cache.
 *
 * <pre>java -jar server.jar &lt;port></pre>
 *
 * <p>It listens on 127.0.0.1. The first line of the output is {"version": …}. Each line of the input,
 * {"version": …, "resources": […]}, is the next snapshot, the same for all nodes; a resource is a
 * google.protobuf.Any in base64. It is answered with {"done": true} or {"error": …}. Between the
 * answers the output tells of the streams: {"stream": …, "delta": …} of one that was opened, the same
 * with a "request" in base64 of each request on it, and with "closed": true of its end. The end of the
 * input ends the process.
 */
public final class Server {
  private static final String EVERY_NODE = "every node";
  private static final Gson GSON = new Gson();
  private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private Server() {}

  public static void main(String[] args) throws IOException {
    SimpleCache<String> cache = new SimpleCache<>(node -> EVERY_NODE);
    NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])))
        .addService(new V3DiscoveryServer(cache).getAggregatedDiscoveryServiceImpl())
        .intercept(new Reporter())
        .build()
        .start();
    report(Map.of("version", version()));
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        cache.setSnapshot(EVERY_NODE, GSON.fromJson(line, Command.class).snapshot());
        report(Map.of("done", true));
      } catch (InvalidProtocolBufferException | RuntimeException e) {
        report(Map.of("error", e.toString()));
      }
    }
    System.exit(0);
  }

  /** The version of java-control-plane, which only Maven's files in its archive have. */
  private static String version() throws IOException {
    String path = "/META-INF/maven/io.envoyproxy.controlplane/server/pom.properties";
    Properties properties = new Properties();
    try (InputStream file = V3DiscoveryServer.class.getResourceAsStream(path)) {
      properties.load(file);
    }
    return properties.getProperty("version");
  }

  private static synchronized void report(Map<String, Object> line) {
    OUTPUT.println(GSON.toJson(line));
  }

  /** A line of the input. */
  private static final class Command {
    private String version;
    private List<String> resources;

    Snapshot snapshot() throws InvalidProtocolBufferException {
      return Snapshot.create(
          all(Cluster.class),
          all(ClusterLoadAssignment.class),
          all(Listener.class),
          all(RouteConfiguration.class),
          List.of(),
          version);
    }

    private <T extends Message> List<T> all(Class<T> type) throws InvalidProtocolBufferException {
      List<T> messages = new ArrayList<>();
      for (String encoded : resources) {
        Any resource = Any.parseFrom(Base64.getDecoder().decode(encoded));
        if (resource.is(type)) {
          messages.add(resource.unpack(type));
        }
      }
      return messages;
    }
  }

  /** Reports streams and the requests on them. */
  private static final class Reporter implements ServerInterceptor {
    private final AtomicLong streams = new AtomicLong();

    @Override
    public <Q, P> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, P> call, Metadata headers, ServerCallHandler<Q, P> next) {
      long stream = streams.incrementAndGet();
      boolean delta = call.getMethodDescriptor().getBareMethodName().startsWith("Delta");
      report(Map.of("stream", stream, "delta", delta));
      return new SimpleForwardingServerCallListener<Q>(next.startCall(call, headers)) {
        @Override
        public void onMessage(Q message) {
          byte[] request = ((Message) message).toByteArray();
          String encoded = Base64.getEncoder().encodeToString(request);
          report(Map.of("stream", stream, "delta", delta, "request", encoded));
          super.onMessage(message);
        }

        @Override
        public void onCancel() {
          report(Map.of("stream", stream, "closed", true));
          super.onCancel();
        }

        @Override
        public void onComplete() {
          report(Map.of("stream", stream, "closed", true));
          super.onComplete();
        }
      };
    }
  }
}
