package example;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.core.annotation.Order;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.core.oidc.user.OidcUser;
import org.springframework.security.oauth2.jwt.Jwt;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** A page that users sign in to, and an API that takes access tokens. The properties name the provider. */
@SpringBootApplication
@RestController
public class Site {
    public static void main(String[] arguments) {
        SpringApplication.run(Site.class, arguments);
    }

    @GetMapping("/")
    String page(@AuthenticationPrincipal OidcUser user) {
        return user.getEmail();
    }

    @GetMapping("/api")
    String api(@AuthenticationPrincipal Jwt token) {
        return token.getSubject();
    }

    @Bean
    @Order(1)
    SecurityFilterChain resourceServer(HttpSecurity http) throws Exception {
        return http.securityMatcher("/api")
                .authorizeHttpRequests(requests -> requests.anyRequest().authenticated())
                .oauth2ResourceServer(server -> server.jwt(Customizer.withDefaults()))
                .build();
    }

    @Bean
    @Order(2)
    SecurityFilterChain login(HttpSecurity http) throws Exception {
        return http.authorizeHttpRequests(requests -> requests.anyRequest().authenticated())
                .oauth2Login(Customizer.withDefaults())
                .build();
    }
}
