package test;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import io.grpc.xds.XdsCredentialsProvider;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;

/**
 * The credentials "tls" of a bootstrap with the files that gRFC A65 has in their configuration.
 * grpc-java's own do not read any: they are TLS with the system's CAs and without a certificate. An
 * application takes the place of them by a provider of higher priority, as here.
 */
public final class Certificates extends XdsCredentialsProvider {
  @Override
  protected String getName() {
    return "tls";
  }

  @Override
  public boolean isAvailable() {
    return true;
  }

  @Override
  public int priority() {
    return 10; // grpc-java's own has 5
  }

  @Override
  protected ChannelCredentials newChannelCredentials(Map<String, ?> config) {
    try {
      TlsChannelCredentials.Builder credentials = TlsChannelCredentials.newBuilder();
      if (config != null && config.get("ca_certificate_file") instanceof String ca) {
        credentials.trustManager(new File(ca));
      }
      if (config != null
          && config.get("certificate_file") instanceof String certificate
          && config.get("private_key_file") instanceof String key) {
        credentials.keyManager(new File(certificate), new File(key));
      }
      return credentials.build();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
