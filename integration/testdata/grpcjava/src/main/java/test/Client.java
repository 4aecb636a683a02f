package test;

import com.google.gson.Gson;
import io.grpc.CallOptions;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A gRPC client of the end-to-end tests: grpc-java, with its own xDS client.
 *
 * <pre>java -jar client.jar &lt;method> &lt;timeout in milliseconds></pre>
 *
 * <p>The bootstrap is in GRPC_XDS_BOOTSTRAP_CONFIG. The first line of the output is {"version": …}. Then
 * each line of the input is a target, over whose channel it makes one unary RPC, without waiting for
 * others. It is reported as {"target": …, "code": …, "message": …} or {"target": …, "code": 0,
 * "backend": …}. The end of the input ends the process.
 */
public final class Client {
  private static final Gson GSON = new Gson();
  private static final PrintStream OUTPUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private Client() {}

  public static void main(String[] args) throws IOException {
    long timeout = Long.parseLong(args[1]);
    MethodDescriptor<byte[], byte[]> method =
        MethodDescriptor.<byte[], byte[]>newBuilder(new Bytes(), new Bytes())
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName(args[0].substring(1)) // it has no slash in front here
            .build();
    Map<String, ManagedChannel> channels = new HashMap<>();
    report(Map.of("version", ManagedChannel.class.getPackage().getImplementationVersion()));
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String target = input.readLine(); target != null; target = input.readLine()) {
      ManagedChannel channel =
          channels.computeIfAbsent(
              target,
              t -> Grpc.newChannelBuilder(t, InsecureChannelCredentials.create()).build());
      CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(timeout, TimeUnit.MILLISECONDS);
      ClientCalls.asyncUnaryCall(channel.newCall(method, options), new byte[0], new Outcome(target));
    }
    // The xDS client keeps threads and its stream for a while after a shutdown.
    System.exit(0);
  }

  private static synchronized void report(Map<String, Object> line) {
    OUTPUT.println(GSON.toJson(line));
  }

  /** Reports an RPC. */
  private static final class Outcome implements StreamObserver<byte[]> {
    private final String target;
    private String backend;

    Outcome(String target) {
      this.target = target;
    }

    @Override
    public void onNext(byte[] answer) {
      backend = new String(answer, StandardCharsets.UTF_8);
    }

    @Override
    public void onCompleted() {
      report(Map.of("target", target, "code", Status.OK.getCode().value(), "backend", backend));
    }

    @Override
    public void onError(Throwable error) {
      Status status = Status.fromThrowable(error);
      String message = String.valueOf(status.getDescription());
      report(Map.of("target", target, "code", status.getCode().value(), "message", message));
    }
  }

  /** Messages have no schema. */
  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
